import os
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from support.packages import read_files

from trl_mle.competitions import CompetitionError, load_competition


FACTS = {  # metric, higher is better, rows in all, label column
    "digits": ("log_loss", False, 1797, "label"),
    "breast-cancer": ("roc_auc", True, 569, "malignant"),
    "diabetes": ("rmse", False, 442, "progression"),
    "wine": ("accuracy", True, 178, "cultivar"),
}


@pytest.mark.parametrize("name", FACTS)
def test_layout_and_columns(name):
    comp = load_competition(name)
    metric, higher_is_better, rows, label = FACTS[name]
    assert (comp.id, comp.slug, comp.metric, comp.higher_is_better) == (name, name, metric, higher_is_better)
    assert comp.public_dir.parts[-3:] == (name, "prepared", "public")
    assert comp.answers == comp.public_dir.parent / "private" / "test.csv"
    files = {"train.csv", "test.csv", "sample_submission.csv", "description.md"}
    assert {path.name for path in comp.public_dir.iterdir()} == files

    paths = (comp.public_dir / "train.csv", comp.public_dir / "test.csv", comp.answers, comp.sample_submission)
    train, test, answers, sample = map(pd.read_csv, paths)
    assert [*test.columns, label] == list(train.columns)
    assert list(answers.columns) == list(sample.columns) == ["id", *comp.target_columns]
    assert list(test["id"]) == list(answers["id"]) == list(sample["id"])
    assert len(train) + len(test) == rows
    assert 0.29 < len(test) / rows < 0.31
    assert pd.concat([train["id"], test["id"]]).is_unique
    assert not pd.concat([train, test])[list(test)].isna().any(axis=None)


def test_files_are_the_same_every_time(tmp_path, monkeypatch):
    written = []
    for cache in ("a", "b"):
        monkeypatch.setenv("TRL_MLE_CACHE", str(tmp_path / cache))
        for name in FACTS:
            load_competition(name)
        written.append(read_files(tmp_path / cache))
    assert len(written[0]) == 5 * len(FACTS)
    assert written[0] == written[1]


def test_modes_do_not_depend_on_the_umask(tmp_path, monkeypatch):
    monkeypatch.setenv("TRL_MLE_CACHE", str(tmp_path / "cache"))
    before = os.umask(0o077)
    try:
        load_competition("wine")
    finally:
        os.umask(before)
    for path in [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path


def test_racing_writers_all_succeed_and_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TRL_MLE_CACHE", str(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        comps = list(pool.map(load_competition, ["wine"] * 4))
    assert all(comp == comps[0] for comp in comps)
    assert [path.name for path in comps[0].public_dir.parents[2].iterdir()] == ["wine"]
    assert comps[0].grade(comps[0].answers).value == 1


def test_written_only_once_where_xdg_says(tmp_path, monkeypatch):
    monkeypatch.delenv("TRL_MLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    train = load_competition("wine").public_dir / "train.csv"
    assert train.is_relative_to(tmp_path / "trl_mle")
    before = train.stat()
    load_competition("wine")
    assert (train.stat().st_mtime_ns, train.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_cache_that_cannot_be_written_is_one_clear_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRL_MLE_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(CompetitionError, match="set TRL_MLE_CACHE") as error:
        load_competition("wine")
    assert "\n" not in str(error.value)
