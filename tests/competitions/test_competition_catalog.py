import math

import pytest

from trl_mle.competitions import CompetitionError, list_competitions, load_competition
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS


SPOOKY = "spooky-author-identification"


def test_list():
    assert list_competitions()[:4] == ["digits", "breast-cancer", "diabetes", "wine"]
    assert len(set(list_competitions())) == 16


@pytest.mark.parametrize("name", ["digit", "Digits", "mirror:spooky-author-identification", "xyz", ""])
def test_unknown_ids_name_known_ones(name):
    with pytest.raises(CompetitionError, match="unknown competition") as error:
        load_competition(name)
    assert any(known in str(error.value) for known in list_competitions())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", MLEBENCH_COMPETITIONS)
def test_unprepared_ones_name_the_command(name, tmp_path):
    with pytest.raises(CompetitionError, match=f"prepare it with: mlebench prepare -c {name}( |$)"):
        load_competition(name, data_dir=tmp_path)


def test_prepared_ones_that_cannot_be_graded_yet_say_so(tmp_path):
    for folder in ("public", "private"):
        (tmp_path / "leaf-classification" / "prepared" / folder).mkdir(parents=True)
    with pytest.raises(CompetitionError, match="not supported by this version"):
        load_competition("leaf-classification", data_dir=tmp_path)


def test_data_dir_comes_from_the_argument_the_variable_or_the_cache(spooky_dir, tmp_path, monkeypatch):
    assert load_competition(SPOOKY, data_dir=str(spooky_dir)).public_dir.is_relative_to(spooky_dir)
    monkeypatch.setenv("MLEBENCH_DATA_DIR", str(spooky_dir))
    assert load_competition(SPOOKY).public_dir.is_relative_to(spooky_dir)
    monkeypatch.delenv("MLEBENCH_DATA_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "mle-bench").mkdir(parents=True)
    (tmp_path / "cache" / "mle-bench" / "data").symlink_to(spooky_dir)
    assert load_competition(SPOOKY).public_dir.is_relative_to(tmp_path / "cache")


def test_spooky_is_graded_by_its_rules(spooky_dir):
    comp = load_competition(SPOOKY, data_dir=spooky_dir)
    assert (comp.slug, comp.metric, comp.higher_is_better) == (SPOOKY, "log_loss", False)
    assert comp.description.startswith("# Overview")
    # Two rows by EAP at 0.4, one each by the others at 0.3.
    assert comp.grade(comp.sample_submission).value == round(-(math.log(0.4) + math.log(0.3)) / 2, 5)
    assert comp.grade(comp.answers).value == 0
    assert comp.grade(b"id,MWS,EAP,HPL\nid4,0,1,0\nid9,1,0,0\nid3,0,0,1\nid7,0,1,0\n").value == 0
    last = b"EAP,HPL,MWS,id\n1,0,0,id7\n0,1,0,id3\n0,0,1,id9\n1,0,0,id4\n"
    assert "first column must be 'id'" in comp.grade(last).error
    extra = b"id,EAP,HPL,MWS,x\nid7,1,0,0,1\nid3,0,1,0,1\nid9,0,0,1,1\nid4,1,0,0,1\n"
    assert "it also has 'x'" in comp.grade(extra).error
