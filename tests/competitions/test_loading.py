import math
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.prepared_folders import write_prepared_folder

from trl_mle.competitions import CompetitionError, TaskSet, list_competitions, load_competition
from trl_mle.competitions.loading import id_of
from trl_mle.competitions.own import final_competition


SPOOKY = "spooky-author-identification"


@pytest.mark.parametrize("name", ["digit", "Digits", "xyz", ""])
def test_unknown_ids_name_others(name):
    with pytest.raises(CompetitionError, match=r"^unknown competition.*$") as error:
        load_competition(name)
    assert any(other in str(error.value) for other in list_competitions())


def test_data_dir_comes_from_the_argument_the_variable_or_the_cache(tmp_path, monkeypatch):
    with pytest.raises(CompetitionError, match=f"prepare it with: mlebench prepare -c {SPOOKY}$"):
        load_competition(SPOOKY, data_dir=tmp_path)
    data = tmp_path / "cache" / "mle-bench" / "data"
    write_prepared_folder(SPOOKY, data)
    assert load_competition(SPOOKY, data_dir=str(data)).public_dir.is_relative_to(data)
    monkeypatch.setenv("MLEBENCH_DATA_DIR", str(data))
    assert load_competition(SPOOKY).public_dir.is_relative_to(data)
    monkeypatch.delenv("MLEBENCH_DATA_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert load_competition(SPOOKY).public_dir.is_relative_to(data)


@pytest.fixture
def own_folder(tmp_path: Path) -> Path:
    """A user's own competition: public/, private/ and a competition.yaml with the required lines."""
    folder = tmp_path / "My competitions" / "prices"
    for name in ("public", "private"):
        (folder / name).mkdir(parents=True)
    (folder / "public" / "sample_submission.csv").write_text("house,price\n1,2\n2,2\n3,2\n")
    (folder / "public" / "train.csv").write_text("house,street,price\n4,a,2\n")
    (folder / "private" / "test.csv").write_text("house,price,street\n1,1\n2,2\n3,3\n")
    (folder / "competition.yaml").write_text("metric: rmse\nid_column: house\n")
    return folder


def test_a_folder_of_ones_own(own_folder, monkeypatch):
    comp = load_competition(str(own_folder))
    assert (comp.id, comp.metric, comp.higher_is_better) == (str(own_folder), "rmse", False)
    assert comp.target_columns == ("price",)
    assert comp.grade(comp.sample_submission).value == round(math.sqrt(2 / 3), 5)
    monkeypatch.chdir(own_folder.parent)
    assert load_competition("./prices").answers == load_competition("prices").answers == comp.answers
    assert load_competition("./prices").id == "./prices"


def test_mistyped_folders_name_those_beside_them(own_folder, monkeypatch):
    monkeypatch.chdir(own_folder.parent)
    for typed, near in ("pricse", "./prices"), ("./pricse/", "./prices"), (f"{own_folder}s", own_folder):
        with pytest.raises(CompetitionError, match=rf"; did you mean '{near}'\?$"):
            load_competition(typed)


@pytest.mark.parametrize("target", ["private/test.csv", "private", "/etc/hostname", "/nowhere"])
@pytest.mark.parametrize("name", ["description.md", "images/a/b"])
def test_links_out_of_the_public_files_are_refused(own_folder, name, target):
    """They would show a user's files, and labels, in prompts and in what is exported."""
    link = own_folder / "public" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target if target[0] == "/" else "../" * (1 + name.count("/")) + target)
    (own_folder.parent / "linked").symlink_to(own_folder)
    for folder in (own_folder, own_folder.parent / "linked"):
        with pytest.raises(CompetitionError, match=f"/public/{name} is a link out of .*/public: put a copy in"):
            load_competition(folder)
    link.rename(link.with_name("first"))
    link.symlink_to("first")  # a link inside to one that leads out
    with pytest.raises(CompetitionError, match="is a link out of"):
        TaskSet([str(own_folder)])[str(own_folder)]


def test_links_out_of_the_unlabelled_rows_are_refused(own_folder):
    (own_folder / "final").mkdir()
    competition = load_competition(own_folder)
    assert final_competition(competition).public_dir == own_folder / "final"
    (own_folder / "final" / "description.md").symlink_to("../private/test.csv")
    with pytest.raises(CompetitionError, match="is a link out of"):
        final_competition(competition)


@pytest.mark.parametrize("part", ["", "public", "private"])
def test_data_may_lie_behind_links(own_folder, tmp_path, part):
    """On another disk, for example, and with links that stay among the public files."""
    (own_folder / "public" / "loop").symlink_to("loop")
    (own_folder / "public" / "same.csv").symlink_to(own_folder / "public" / "train.csv")
    (own_folder / part).rename(tmp_path / "elsewhere")
    (own_folder / part).symlink_to(tmp_path / "elsewhere")
    comp = load_competition(own_folder)
    assert comp.grade(comp.answers).value == 0


def test_ids_and_slugs_of_folders(own_folder, monkeypatch):
    monkeypatch.chdir(own_folder)
    for name in (str(own_folder), "../prices", "../../My competitions/prices/"):
        assert re.fullmatch(r"(?![.-])[\w.-]*prices", load_competition(name).slug, re.ASCII)
    for name in (".", "./"):
        assert TaskSet([name])["prices"].id == load_competition(name).id == "prices"
    with (own_folder / "competition.yaml").open("a") as config:
        config.write("id: house prices\n")
    assert (load_competition(".").id, load_competition(".").slug) == ("house prices", "house-prices")


def test_an_mlebench_competition_outside_the_12(own_folder, tmp_path):
    prepared = tmp_path / "data" / "house-prices" / "prepared"
    prepared.mkdir(parents=True)
    with pytest.raises(CompetitionError, match=f"needs a file {prepared.parent}/competition.yaml"):
        load_competition("house-prices", data_dir=tmp_path / "data")
    for name in ("public", "private"):
        (own_folder / name).rename(prepared / name)
    (own_folder / "competition.yaml").rename(prepared.parent / "competition.yaml")
    comp = load_competition("house-prices", data_dir=tmp_path / "data")
    assert (comp.id, comp.public_dir) == ("house-prices", prepared / "public")
    assert comp.grade(comp.answers).value == 0


def test_every_key(own_folder):
    (own_folder / "public" / "sample_submission.csv").rename(own_folder / "public" / "sample.csv")
    (own_folder / "private" / "test.csv").rename(own_folder / "private" / "labels.csv")
    (own_folder / "competition.yaml").write_text(
        "id: prices\nmetric: rmse\nid_column: house\nanswers: labels.csv\nsample_submission: sample.csv\n"
        "target_columns: [price]\nexact_columns: true\nid_first: true\nin_file_order: false\nrow_sum_decimals: 2\n"
    )
    with pytest.raises(CompetitionError, match="must sum to 1"):  # prices do not
        load_competition(str(own_folder)).grade(b"")
    config = (own_folder / "competition.yaml").read_text().replace("row_sum_decimals: 2", "row_sum_decimals: null")
    (own_folder / "competition.yaml").write_text(config)
    comp = load_competition(str(own_folder))
    assert comp.grade(b"house,price\n3,3\n2,2\n1,1\n").value == 0
    for other in (b"price,house\n3,3\n2,2\n1,1\n", b"house,price,x\n3,3,0\n2,2,0\n1,1,0\n"):
        assert not comp.grade(other).valid


def refused(folder, config, reason):
    (folder / "competition.yaml").write_text(config, encoding="latin-1")
    with pytest.raises(CompetitionError, match=f"^.*({reason}).*$"):
        load_competition(str(folder))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("metric: \xff", "is not YAML"),
        ("id: 3", "'id' must be a name"),
        ("id_colum: house", "unexpected keyword argument 'id_colum'"),
        ("target_columns: [price, price]", "target_columns must be different columns"),
        ("metric: rmsee", "unknown metric 'rmsee'; did you mean 'rmse'"),
        ("metric: math.sqrt\nhigher_is_better: 'false'", "needs higher_is_better, true or false"),
        ("metric: accuracy\ntext_columns: [house]", "text_columns among them"),
        ("answers: answers.csv", "lacks the file .*private/answers.csv"),
        ("answers: ../../../etc/passwd", "is not in the competition's own folder"),
        ("sample_submission: /etc/passwd", "is not in the competition's own folder"),
        ("id: task:train/5", "'id' must be a name"),
        ("id: hf://datasets/a/b", "'id' must be a name"),
    ],
)
def test_what_is_wrong_with_a_config_is_one_clear_line(lines, reason, own_folder):
    refused(own_folder, "id_column: house\n" + "metric: rmse\n" * ("metric" not in lines) + lines, reason)


BOMB = ["a0: &a0 [x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 20)), "metric: *a19"]


def test_configs_without_what_they_need_or_with_aliases(own_folder):
    refused(own_folder, "", "must hold lines of the form")
    refused(own_folder, "id: x", "missing 2 required .* 'metric' and 'id_column'")
    refused(own_folder, "\n".join(BOMB), "is not YAML: it has an alias.* line 2")


@pytest.mark.parametrize("key", ["id", "target_columns"])
def test_hostile_values_of_a_config_are_one_clear_line(key, own_folder):
    values = ["[" * 3000 + "]" * 3000, "0x" + "f" * 5000, "!!timestamp x", "{[1]: 2}", "3"]
    for value in (*values, "!!python/object/apply:os.system [true]"):
        config = f"metric: rmse\nid_column: house\n{key}: {value}"
        refused(own_folder, config, "competition.yaml|lacks the columns")
        assert isinstance(id_of(str(own_folder)), str)


def mean_error(y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
    """Raises if some rows are right, but not if all are, as metrics of users may do."""
    error = np.abs(y_true - y_pred).to_numpy()
    if 0 < (error == 0).sum() < len(error):
        raise ZeroDivisionError("division by\nzero")
    return error.mean()


def test_a_metric_of_ones_own(own_folder):
    config = f"metric: {__name__}.mean_error\nhigher_is_better: false\nid_column: house\n"
    (own_folder / "competition.yaml").write_text(config)
    comp = load_competition(str(own_folder))
    assert (comp.metric, comp.higher_is_better) == (f"{__name__}.mean_error", False)
    assert comp.grade(b"house,price\n3,4\n1,2\n2,4\n").value == round(4 / 3, 5)
    assert pickle.loads(pickle.dumps(comp)).grade(comp.answers).value == 0
    score = comp.grade(comp.sample_submission)
    assert score.error == f"{__name__}.mean_error fails with ZeroDivisionError: division by zero"
    # A metric that cannot score the right answers is at fault itself.
    (own_folder / "competition.yaml").write_text(config.replace(f"{__name__}.mean_error", "math.sqrt"))
    with pytest.raises(CompetitionError, match=r"cannot be graded: math\.sqrt fails with TypeError"):
        load_competition(str(own_folder)).grade(b"")
