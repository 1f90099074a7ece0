"""A user's own competition, made from a table."""

import csv
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.tree import DecisionTreeClassifier
from support.packages import write_files

from trl_mle.competitions import CompetitionError, load_competition, own
from trl_mle.competitions.own import final_competition, new_competition, write_config
from trl_mle.evaluation.submission_search import like_sample
from trl_mle.execution import Limits
from trl_mle.prompts import scratch_prompt


def write(folder, count=80, **columns):
    """Writes a table that is sorted by its targets, with cells that must not be changed."""
    table = pd.DataFrame(
        {
            "code": [f"00{i % 7}" for i in range(count)],
            "note": ['it, is "so"', "", "NA", "é\nnext"] * (count // 4),
            "price": [1000 * i + 0.5 for i in range(count)],
            "sold": [int(i >= count / 2) for i in range(count)],
            "kind": [["red", "white, dry", "rosé"][3 * i // count] for i in range(count)],
        }
        | columns
    )
    table.to_csv(folder / "table.csv", index=False)
    return folder / "table.csv", table


def others(folder, rows):
    """Writes such rows, but none that are the same."""
    rows.assign(note="of nobody").to_csv(folder / "test.csv", index=False)
    return folder / "test.csv"


KINDS = [
    ("price", "rmse"),
    ("price", "pearson_correlation"),
    ("price", "mean_columnwise_rmsle"),
    ("sold", "roc_auc"),
    ("sold", "accuracy"),
    ("kind", "accuracy"),
    ("kind", "log_loss"),
    ("sold", "quadratic_weighted_kappa"),
    ("kind", "word_level_jaccard"),
]


@pytest.mark.parametrize(("target", "metric"), KINDS, ids=[f"{metric} of {target}" for target, metric in KINDS])
def test_it_is_one(tmp_path, target, metric):
    path, table = write(tmp_path)
    comp = new_competition(path, [target], metric, tmp_path / "mine")
    assert comp == load_competition(str(tmp_path / "mine"))
    assert comp.id == "mine"
    train, test, sample = (
        pd.read_csv(comp.public_dir / f"{name}.csv", dtype=str, keep_default_na=False)
        for name in ("train", "test", "sample_submission")
    )
    assert len(test) == len(sample) == pytest.approx(len(table) / 4, abs=3)
    assert list(train.columns) == [*test.columns, target]
    assert target not in test
    # Every row is there once, with its cells unchanged
    cells = ["code", "note"]
    whole = pd.read_csv(path, dtype=str, keep_default_na=False)
    together = pd.concat([train, test])[cells].value_counts()
    assert together.to_dict() == whole[cells].value_counts().to_dict()
    assert sorted(pd.concat([train, test])["id"].astype(int)) == list(range(len(table)))

    answers = (tmp_path / "mine" / "private" / "test.csv").read_bytes()
    perfect, guess = comp.grade(answers), comp.grade(comp.sample_submission)
    assert perfect.valid
    assert guess.valid
    assert perfect.value == pytest.approx(comp.scoring.best)
    assert comp.scoring.gain(perfect.value) > comp.scoring.gain(guess.value)
    assert load_competition(str(tmp_path / "mine"), holdout=0.5).grade(answers).held_out is not None
    assert str(target) in scratch_prompt(comp, Limits())[0]["content"]


def test_neither_ids_nor_order_tell_the_label(tmp_path):
    path, _ = write(tmp_path, 400)
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine")
    answers = pd.read_csv(tmp_path / "mine" / "private" / "test.csv")
    assert abs(np.corrcoef(answers["id"], answers["price"])[0, 1]) < 0.25
    assert abs(np.corrcoef(np.arange(len(answers)), answers["price"])[0, 1]) < 0.25
    assert {"id", "price"} == set(answers.columns)
    assert comp.id_column == "id"


def test_labels_are_shared_out_evenly(tmp_path):
    path, table = write(tmp_path, 120)
    new_competition(path, ["kind"], "accuracy", tmp_path / "mine")
    answers = pd.read_csv(tmp_path / "mine" / "private" / "test.csv")
    assert answers["kind"].value_counts().to_dict() == dict.fromkeys(table["kind"].unique(), 10)


def test_several_targets_and_an_id_of_ones_own(tmp_path):
    path, table = write(tmp_path, more=[float(i % 13) for i in range(80)], name=[f"row {i}" for i in range(80)])
    comp = new_competition(path, ["price", "more"], "mean_columnwise_rmsle", tmp_path / "mine", id_column="name")
    assert comp.target_columns == ("price", "more")
    assert comp.id_column == "name"
    assert set(pd.read_csv(comp.public_dir / "test.csv")["name"]) < set(table["name"])
    layout = yaml.safe_load((tmp_path / "mine" / "competition.yaml").read_text())
    assert layout["target_columns"] == ["price", "more"]


BAD = {
    "no such column": ({"targets": ["prize"]}, "has no column 'prize'; it has 'code', 'note'"),
    "no such metric": ({"metric": "rmsee"}, "unknown metric 'rmsee'; did you mean 'rmse'?"),
    "metric far from any": (
        {"metric": "x"},
        "unknown metric 'x'; known are log_loss, .* and your own as my_module.my",
    ),
    "texts": (
        {"targets": ["kind"]},
        "rmse needs numbers, and 'kind' holds 'red' in row 2 and 79 more: take accuracy for labels, or say how num",
    ),
    "no texts": ({"metric": "word_level_jaccard"}, "word_level_jaccard compares texts, and 'price' holds "),
    "not 0 and 1": (
        {"targets": ["kind"], "metric": "roc_auc"},
        "roc_auc needs two labels in 'kind', which holds 'red', 'rosé', 'white, dry': take log_loss for labels, or rmse",
    ),
    "continuous": (
        {"metric": "accuracy"},
        "5, say., and accuracy is for labels: take rmse, mae or r2$",
    ),
    "two targets": (
        {"targets": ["sold", "kind"], "metric": "accuracy"},
        "^accuracy cannot score sold, kind: the metric is one of a single target column, not of 2$",
    ),
    "too many labels": (
        {"metric": "log_loss"},
        "'price' has 80 different values: log_loss takes labels, 1999 at most",
    ),
    "ids twice": ({"id_column": "code"}, "two rows have the code '00"),
    "split by nothing": (
        {"split": "random"},
        "^--split must be time:COLUMN or group:COLUMN, with one of 'code', 'note'",
    ),
    "split by the target": ({"split": "time:price"}, "with one of 'code', 'note', 'sold', 'kind'; got 'time:price'$"),
    "split by no times": (
        {"split": "time:kind"},
        "^'kind' has no numbers, or dates with a year in one format, but 'red' in row 2 and 79 more: correct it, or name",
    ),
    "share": ({"test_share": 1.0}, "test_share must be between 0 and 1, got 1"),
    "twice": ({"targets": ["price", "price"]}, "--target names a column twice"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_one(tmp_path, options, message):
    path, _ = write(tmp_path)
    arguments = {"table": path, "targets": ["price"], "metric": "rmse", "folder": tmp_path / "mine"} | options
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as caught:
        new_competition(**arguments)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]  # no partial output


def test_no_column_determines_the_target_because_rows_are_there_twice(tmp_path, caplog):
    path, table = write(tmp_path, size=[i % 7 + i / 100 for i in range(80)])
    pd.concat([table, table]).to_csv(path, index=False)
    new_competition(path, ["price"], "rmse", tmp_path / "mine")
    assert "determines" not in caplog.text


def test_fractions_are_no_labels_of_classifiers(tmp_path):
    path, _ = write(tmp_path, stars=[1, 1.5, 2, 2.5] * 20)
    with pytest.raises(
        CompetitionError, match=r"'stars' holds 1\.5, and scikit-learn's classifiers take no fractions"
    ):
        new_competition(path, ["stars"], "log_loss", tmp_path / "mine")


def test_a_folder_whose_name_is_no_id(tmp_path):
    path, _ = write(tmp_path)
    with pytest.raises(
        CompetitionError, match=r"^'数据' has no letter from a to z and no digit: name another folder with --to$"
    ):
        new_competition(path, ["price"], "rmse", tmp_path / "数据")
    assert new_competition(path, ["price"], "rmse", tmp_path / "数据2").id == "数据2"
    with pytest.raises(
        CompetitionError, match=r"^a competition of ours is called 'wine': name another folder with --to$"
    ):
        new_competition(path, ["price"], "rmse", tmp_path / "wine")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    path, _ = write(tmp_path, price=range(80))
    with pytest.raises(OSError, match=r"^/proc/houses cannot be written: No such file or directory$"):
        new_competition(path, ["price"], "rmse", Path("/proc/houses"))


def test_the_description_says_what_predictions_are(tmp_path):
    path, _ = write(tmp_path, mood=["happy", "angry"] * 40, grade=[1, 2] * 40, won=[True, False] * 40, size=range(80))
    as_in_training, whole = "Predictions are labels as in the training data.", "Predictions are whole numbers."
    for target, rule in ("mood", as_in_training), ("grade", whole), ("won", as_in_training):
        competition = new_competition(path, [target], "accuracy", tmp_path / target)
        assert competition.description.count("Predictions are") == 1
        assert rule in competition.description
        assert competition.rule == rule


def test_continuous_labels(tmp_path):
    path, _ = write(tmp_path, price=range(80))
    with pytest.raises(CompetitionError, match=r"'price' looks continuous \(\d+, say\), and accuracy is for labels"):
        new_competition(path, ["price"], "accuracy", tmp_path / "mine")


@pytest.mark.parametrize(
    ("labels", "meaning"),
    [
        (("no", "yes"), "'yes' and 0 for 'no'"),
        (("FALSE", "TRUE"), "True and 0 for False"),
        (("9", "10"), "10 and 0 for 9"),
        (("-1", "+1"), "1 and 0 for -1"),
    ],
)
@pytest.mark.parametrize("metric", ["roc_auc", "f1", "binary_log_loss"])
def test_two_labels_become_0_and_1(tmp_path, caplog, labels, meaning, metric):
    """As scikit-learn orders them, and programs see them."""
    path, table = write(tmp_path, sold=[labels[i % 4 == 0] for i in range(80)])
    comp = new_competition(path, ["sold"], metric, tmp_path / "mine", test=others(tmp_path, table))
    assert f"'sold': 1 stands for {meaning}" in caplog.messages
    meaning = meaning.replace("' and", ",").replace(" and", ",").replace("'", "")
    assert f"Predict `sold` (1 for {meaning}) of each row" in comp.description
    for known in comp.answers, comp.public_dir / "train.csv", tmp_path / "mine" / "final" / "train.csv":
        assert pd.read_csv(known)["sold"].mean() == 0.25


def test_labels_that_a_float_would_round_are_refused(tmp_path):
    path, _ = write(tmp_path, kind=[2**60 + i % 2 for i in range(80)])
    with pytest.raises(
        CompetitionError, match=r"^accuracy cannot score kind: labels of more than 53 bits would be rounded"
    ):
        new_competition(path, ["kind"], "accuracy", tmp_path / "mine")


def test_rows_without_a_target_are_set_aside(tmp_path, caplog):
    path, table = write(tmp_path, price=["", "NA", "None", *range(5, 82)], more=[*range(79), None])
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine")
    assert "rows without 'price' are set aside: 3 of 80" in caplog.messages
    assert "pandas reads None as a missing value: if it is a label, call it otherwise" in caplog.messages
    parts = [pd.read_csv(comp.public_dir / "train.csv")["price"], pd.read_csv(comp.answers)["price"]]
    assert sorted(pd.concat(parts)) == list(range(5, 82))
    new_competition(path, ["price", "more"], "mean_columnwise_rmsle", tmp_path / "both")
    assert "rows without 'price' or 'more' are set aside: 4 of 80" in caplog.messages
    table.assign(price=[*range(19), *[""] * 61]).to_csv(path, index=False)
    with pytest.raises(CompetitionError, match="has 19 rows with 'price': take 20 at least"):
        new_competition(path, ["price"], "rmse", tmp_path / "few")


def test_a_sign_is_a_label_unless_an_option_says_otherwise(tmp_path):
    path, _ = write(tmp_path, kind=["-" if i < 8 else 1 + i % 2 for i in range(80)])
    for options, count in ({}, 80), ({"na_values": "-"}, 72):
        comp = new_competition(path, ["kind"], "accuracy", tmp_path / f"{count}", read_csv=options)
        parts = [pd.read_csv(file, dtype=str)["kind"] for file in (comp.public_dir / "train.csv", comp.answers)]
        assert sum(map(len, parts)) == count
        assert ("-" in set(pd.concat(parts))) == (count == 80)


def test_a_target_that_says_nothing(tmp_path):
    path, _ = write(tmp_path, price=5.5, kind=["01", "1"] * 40)
    for target, metric in ("price", "rmse"), ("kind", "accuracy"), ("price", "word_level_jaccard"):
        with pytest.raises(CompetitionError, match=rf"^'{target}' is '.*' in all rows: there is nothing to learn$"):
            new_competition(path, [target], metric, tmp_path / "mine")


@pytest.mark.parametrize(
    ("price", "message"),
    [
        (
            [*range(78), "inf", "-inf"],
            "^rmse needs numbers, and 'price' holds 'inf' in row 80 and 1 more: correct or empty",
        ),
        (
            [*range(79), "12 apples"],
            "^rmse needs numbers, and 'price' holds '12 apples' in row 81: correct or empty it, or say",
        ),
        (
            [f"{i} km" for i in range(80)],
            "^rmse .* holds '0 km' in row 2 and 79 more: take accuracy",
        ),
    ],
)
def test_cells_of_the_target_that_are_no_numbers(tmp_path, price, message):
    path, _ = write(tmp_path, price=price)
    with pytest.raises(CompetitionError, match=message):
        new_competition(path, ["price"], "rmse", tmp_path / "mine")


def test_cells_that_make_texts_of_numbers_are_reported(tmp_path, caplog):
    path, _ = write(
        tmp_path,
        size=[*range(79), "12 apples"],
        rate=[*range(40, 78), *range(40), "inf", ""],
        kind=[*range(60), *["x"] * 20],
    )
    new_competition(path, ["price"], "rmse", tmp_path / "mine")
    assert caplog.messages == [
        "'size' holds numbers, but also '12 apples' in row 81: correct or empty it if that is wrong",
        "'rate' holds numbers, but also 'inf' in row 80: correct or empty it if that is wrong",
    ]


def test_cells_of_several_lines(tmp_path):
    """A carriage return does not end a row."""
    path, table = write(tmp_path, note=[f"a\r{i}\r\nb" for i in range(80)], who=[f"x\r{i}" for i in range(80)])
    table.to_csv(path, index=False, quoting=csv.QUOTE_ALL)
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine", "who")
    parts = [pd.read_csv(comp.public_dir / f"{name}.csv") for name in ("train", "test")]
    seen = pd.concat(parts).set_index("who")["note"]
    assert seen[[f"x\n{i}" for i in range(80)]].tolist() == [f"a\n{i}\nb" for i in range(80)]


def test_columns_that_say_nothing_are_left_out(tmp_path, caplog):
    path, table = write(tmp_path, empty="", missing="NA", country="NL", rare=["", *["x"] * 79])
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine", test=others(tmp_path, table))
    assert "columns with the same cell in all rows are left out: 'empty', 'missing', 'country'" in caplog.messages
    assert list(pd.read_csv(comp.public_dir / "test.csv")) == ["id", "code", "note", "sold", "kind", "rare"]
    assert list(pd.read_csv(tmp_path / "mine" / "final" / "test.csv")) == [
        "id",
        "code",
        "note",
        "sold",
        "kind",
        "rare",
    ]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("Id", 1), ("ID", 1), ("PassengerId", 1), ("row_id", 1), ("house ID", 1), ("paid", 0), ("GRID", 0), ("name", 0)],
)
def test_ids_are_found_by_their_name(tmp_path, name, is_one):
    """With a file of rows to predict or without, so that a policy that was trained on one of the folders knows the other."""
    path, table = write(tmp_path, **{name: range(1, 81)})
    others(tmp_path, table.assign(**{name: range(101, 181)}))
    alone = new_competition(path, ["price"], "rmse", tmp_path / "alone")
    twin = new_competition(path, ["price"], "rmse", tmp_path / "twin", test=tmp_path / "test.csv")
    assert alone.id_column == twin.id_column == (name if is_one else "id")
    ids = pd.read_csv(final_competition(twin).sample_submission)[twin.id_column]
    assert list(ids) == list(range(101, 181) if is_one else range(80))


def test_dates_as_ids(tmp_path):
    days = pd.date_range("2024-01-01", periods=80).strftime("%d.%m.%Y")
    path, _ = write(tmp_path, day=days)
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine", "day", split="time:day")
    assert set(pd.read_csv(comp.sample_submission)["day"]) == set(days[60:])
    assert comp.grade(comp.sample_submission).valid


TIMES = {
    "days": [f"{1 + i % 28}/{1 + i // 28}/2024" for i in range(80)],
    "months": [f"2{i // 12:03}-{1 + i % 12:02}" for i in range(80)],
    "in words": [f"Jan {1 + i % 30}, {1900 + i // 30}" for i in range(80)],
    "times of day": [f"2024-02-29T{i // 60:02}:{i % 60:02}:00Z" for i in range(80)],
    "afternoons": [f"{9 + i // 4:02}/03/2023 {1 + i % 4:02}:05 PM" for i in range(80)],
    "numbers": [str(i / 2) for i in range(80)],
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_the_last_rows_are_hidden(tmp_path, times):
    path, _ = write(tmp_path, at=times)
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine", split="time:at")
    assert (
        set(pd.read_csv(comp.sample_submission)["id"]) & set(pd.read_csv(comp.public_dir / "train.csv")["id"]) == set()
    )
    assert set(pd.read_csv(comp.public_dir / "test.csv", dtype=str)["at"]) == set(times[60:])
    assert "By `at`, the rows of test.csv come after those of train.csv." in comp.description


def test_dates_that_may_be_misread_are_refused(tmp_path):
    path, _ = write(tmp_path, at=[f"{1 + i % 12:02}/{1 + i // 12:02}/2024 01:05 PM" for i in range(80)])
    with pytest.raises(CompetitionError, match=r"'at' has dates such as '\d.*': say whether %d/%m/%Y .* or %m/%d/%Y"):
        new_competition(path, ["price"], "rmse", tmp_path / "mine", split="time:at")
    form = "%m/%d/%Y %I:%M %p"
    for number, date_format in enumerate((form, {"at": form})):
        options = {"split": "time:at", "read_csv": {"date_format": date_format}}
        comp = new_competition(path, ["price"], "rmse", tmp_path / f"mine{number}", **options)
        assert set(pd.read_csv(comp.public_dir / "test.csv")["at"].str[:2]) == {"09", "10", "11", "12"}


@pytest.mark.parametrize(
    ("times", "ends", "begin"),
    [
        (pd.date_range("2023-01-01", periods=80).strftime("%d.%m.%Y"), "2023-03-01", "2023-03-02"),
        (pd.date_range("2023-01-01", periods=80, freq="h"), "2023-01-03 11:00:00", "2023-01-03 12:00:00"),
        (TIMES["numbers"], "29.5", "30.0"),
        ([*range(80)], "59", "60"),
    ],
    ids=["days", "hours", "floats", "numbers"],
)
def test_the_border_is_said(tmp_path, caplog, times, ends, begin):
    path, _ = write(tmp_path, at=times)
    new_competition(path, ["price"], "rmse", tmp_path / "mine", split="time:at")
    assert f"--split time:at: train.csv ends {ends}, hidden rows begin {begin}" in caplog.messages


@pytest.mark.parametrize(("times", "is_said"), [(1, False), (2, True)])
def test_copies_of_hidden_rows_are_reported(tmp_path, caplog, times, is_said):
    path, table = write(tmp_path)
    pd.concat([table] * times).assign(id=range(80 * times)).to_csv(path, index=False)
    new_competition(path, ["price"], "rmse", tmp_path / "mine")
    found = [line for line in caplog.messages if "hidden rows are also in train.csv, with their targets" in line]
    assert len(found) == is_said


def test_whole_groups_are_hidden(tmp_path):
    path, _ = write(tmp_path, who=[f"patient {i % 10}" for i in range(80)])
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine", split="group: who")
    train, test = (set(pd.read_csv(comp.public_dir / f"{name}.csv")["who"]) for name in ("train", "test"))
    assert (len(train), len(test), train & test) == (8, 2, set())
    assert (comp.group_column, load_competition("wine").group_column) == ("who", None)
    assert "No `who` of test.csv is in train.csv." in comp.description


def test_rows_without_a_group_are_reported(tmp_path, caplog):
    path, _ = write(tmp_path, who=["" if i % 8 == 0 else f"p{i % 8}" for i in range(80)])
    new_competition(path, ["price"], "rmse", tmp_path / "mine", split="group:who")
    assert caplog.messages == ["--split group:who: rows without 'who' stay together: 10 of 80"]


def test_groups_that_are_equal_to_programs_stay_together(tmp_path):
    path, _ = write(tmp_path, who=[f"{'0' * (i % 3)}{i % 8}" for i in range(80)])
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine", split="group:who")
    train, test = (set(pd.read_csv(comp.public_dir / f"{name}.csv")["who"]) for name in ("train", "test"))
    assert (len(train), len(test), train & test) == (6, 2, set())


def test_a_split_that_hides_all_rows_of_a_label(tmp_path, caplog):
    path, _ = write(tmp_path, at=[str(i) for i in range(80)], half=["a"] * 40 + ["b"] * 40)
    new_competition(path, ["kind"], "log_loss", tmp_path / "mine", split="time:at", test_share=0.4)
    line = "--split time:at with --test_share 0.4 leaves train.csv no row with these labels of 'kind': 'rosé'"
    assert line in caplog.messages
    for target, metric, share, side, label in (
        ("half", "log_loss", 0.6, "train.csv", "'a'"),
        ("half", "roc_auc", 0.6, "train.csv", "0"),
        ("half", "roc_auc", 0.25, "the hidden rows", "1"),
    ):
        message = f"^--split time:at with --test_share {share} leaves {side} one label of '{target}', {label}: change"
        with pytest.raises(CompetitionError, match=message):
            new_competition(path, [target], metric, tmp_path / "other", split="time:at", test_share=share)
    caplog.clear()
    new_competition(path, ["half"], "accuracy", tmp_path / "whole", split="time:at")
    assert not [message for message in caplog.messages if "leaves" in message]


@pytest.mark.parametrize("metric", ["accuracy", "word_level_jaccard"])
def test_a_text_among_labels_that_only_rows_to_learn_from_have(tmp_path, metric):
    grades = ["x" if i < 8 else str(1 + i % 2) for i in range(80)]
    path, _ = write(tmp_path, at=[str(i) for i in range(80)], grade=grades)
    comp = new_competition(path, ["grade"], metric, tmp_path / "mine", split="time:at")
    assert yaml.safe_load((tmp_path / "mine/competition.yaml").read_text())["text_columns"] == ["grade"]
    answers = pd.read_csv(comp.answers, dtype=str)
    assert set(answers["grade"]) == {"1", "2"}
    assert comp.grade(comp.answers).value == 1
    answers.loc[0, "grade"] = "x"
    assert comp.grade(answers.to_csv(index=False).encode()).value == 0.95
    prompt = scratch_prompt(comp, Limits())[0]["content"]
    assert comp.rule in prompt
    assert "whole numbers" not in prompt


@pytest.mark.parametrize("grades", [["1", "2"], ["1", "x"], ["True", "False"]])
def test_labels_that_hidden_rows_show_are_not_recorded_as_texts(tmp_path, grades):
    path, _ = write(tmp_path, grade=grades * 40)
    new_competition(path, ["grade"], "accuracy", tmp_path / "mine")
    assert "text_columns" not in yaml.safe_load((tmp_path / "mine/competition.yaml").read_text())


def test_a_random_split_that_may_leak_is_reported(tmp_path, caplog):
    path, _ = write(tmp_path, **{"the day": TIMES["days"], "year": [2000 + i // 8 for i in range(80)]})
    new_competition(path, ["price"], "rmse", tmp_path / "days")
    assert caplog.messages == [
        "'the day' holds times, and hidden rows lie between others: if later ones are to be predicted, add --split 'time:the "
        "day'"
    ]
    caplog.clear()
    new_competition(path, ["price"], "rmse", tmp_path / "split", split="time:the day")
    assert caplog.messages == ["--split time:the day: train.csv ends 2024-03-04, hidden rows begin 2024-03-05"]
    caplog.clear()
    path, _ = write(tmp_path, year=[2000 + i // 8 for i in range(80)], storm_id=[i // 10 for i in range(80)])
    new_competition(path, ["sold"], "accuracy", tmp_path / "storms")
    assert [message.partition(",")[0] for message in caplog.messages[:2]] == [
        "'year' holds times",
        "'storm_id' repeats",
    ]


def test_a_random_split_that_does_not_is_not(tmp_path, caplog):
    path, _ = write(
        tmp_path,
        built=[1990 + i // 8 for i in range(80)],
        part=[f"{i}-2001x" for i in range(80)],
        name=[f"n{i}" for i in range(80)],
    )
    new_competition(path, ["price"], "rmse", tmp_path / "mine")
    assert not caplog.messages


def test_tables_that_are_none(tmp_path):
    for name, content, message in (
        ("few", "a,b\n" + "1,2\n" * 19, "has 19 rows with 'b': take 20 at least"),
        ("alone", "b\n" + "1\n2\n" * 20, "has no column but id, b"),
    ):
        path = tmp_path / f"{name}.csv"
        path.write_text(content)
        with pytest.raises(CompetitionError, match=message):
            new_competition(path, ["b"], "rmse", tmp_path / "mine")
    with pytest.raises(FileExistsError, match="exists: name another folder with --to"):
        new_competition(path, ["b"], "rmse", tmp_path)


def test_two_at_a_time(tmp_path, monkeypatch):
    path, _ = write(tmp_path)

    def write_second(*args):
        write_files(tmp_path / "mine", {"competition.yaml": "the first"})
        return write_config(*args)

    monkeypatch.setattr(own, "write_config", write_second)
    with pytest.raises(FileExistsError, match="mine exists: name another folder with --to"):
        new_competition(path, ["price"], "rmse", tmp_path / "mine")
    assert [path.read_text() for path in (tmp_path / "mine").iterdir()] == ["the first"]


@pytest.mark.parametrize("id_column", [None, "house"])
@pytest.mark.parametrize(("target", "metric"), KINDS, ids=[f"{metric} of {target}" for target, metric in KINDS])
def test_rows_whose_labels_nobody_knows(tmp_path, target, metric, id_column):
    ids = {} if id_column is None else {id_column: range(80)}
    path, table = write(tmp_path, **ids)
    unknown = (
        table.tail(7)
        .drop(columns=[target])
        .assign(note="of nobody", other=1, **{name: range(100, 107) for name in ids})
    )
    unknown.to_csv(tmp_path / "test.csv", index=False)
    comp = new_competition(path, [target], metric, tmp_path / "mine", id_column, test=tmp_path / "test.csv")
    final = final_competition(comp)
    train, test, sample, shown = (
        pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False)
        for folder, name in [
            (final.public_dir, "train"), (final.public_dir, "test"), (final.public_dir, "sample_submission"),
            (comp.public_dir, "train"),
        ]
    )  # fmt: skip
    assert len(train) == len(table)
    assert list(train.columns) == list(shown.columns) == [*test.columns, target]
    assert list(test[comp.id_column]) == list(sample[comp.id_column]) == [str(i + 100 * bool(ids)) for i in range(7)]
    assert set(test["note"]) == {"of nobody"}
    assert list(sample.columns) == list(pd.read_csv(comp.sample_submission).columns)
    assert final.description == comp.description
    assert not final.grade(comp.sample_submission).valid
    if metric != "pearson_correlation":  # undefined for a constant
        assert final.grade(final.sample_submission).valid
    assert final_competition(new_competition(path, [target], metric, tmp_path / "without", id_column)) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: rows.drop(columns="code"),
            "lacks 'code', which the rows with labels have: add what is lacking, or",
        ),
        (lambda rows: rows.drop(columns="house"), "lacks 'house', which"),
        (lambda rows: rows.head(1), "has 1 rows: take 2 at least"),
        (lambda rows: rows.assign(house=3), "two rows have the house '3'"),
        (
            lambda rows: rows.assign(code=[*range(6), "x"]),
            "test.csv: 'code' is 'x' in row 8, but the rows with labels have numbers: make both",
        ),
        (
            lambda rows: rows.assign(size=["True"] * 7),
            "test.csv: 'size' is 'True' in row 2 and 6 more, but the rows with",
        ),
    ],
)
def test_rows_that_cannot_be_predicted(tmp_path, change, message):
    path, table = write(tmp_path, house=range(80), size=range(80))
    change(table.tail(7).assign(size=range(100, 107))).to_csv(tmp_path / "test.csv", index=False)
    with pytest.raises(CompetitionError, match=message):
        new_competition(path, ["price"], "rmse", tmp_path / "mine", "house", test=tmp_path / "test.csv")
    assert not (tmp_path / "mine").exists()


def test_the_table_itself_has_no_rows_to_predict(tmp_path):
    path, _ = write(tmp_path)
    with pytest.raises(
        CompetitionError, match=r"^--test names the table with labels, .*table.csv: it takes rows without"
    ):
        new_competition(path, ["price"], "rmse", tmp_path / "mine", test=path)


def test_ids_of_the_rows_without_labels_are_kept(tmp_path):
    path, table = write(tmp_path)
    rows = table.tail(3).assign(id=["077", "5", "42"]).drop(columns="price")
    final = final_competition(new_competition(path, ["price"], "rmse", tmp_path / "mine", test=others(tmp_path, rows)))
    assert list(pd.read_csv(final.sample_submission, dtype=str)["id"]) == ["077", "5", "42"]
    content = like_sample(b"id,price,more\n42,3,x\n77,1,x\n5,2,x\n", final)
    assert content == b"id,price\n077,1\n5,2\n42,3\n"


def test_any_label_may_be_predicted_for_few_rows(tmp_path):
    path, table = write(tmp_path, kind=["0", "1", "2", "x"] * 20, also=[0, 1] * 40)
    others(tmp_path, table.tail(3))
    final = final_competition(new_competition(path, ["kind"], "accuracy", tmp_path / "a", test=tmp_path / "test.csv"))
    assert final.grade(b"id,kind\n0,x\n1,1\n2,2\n").valid
    targets = ["sold", "also"]
    many = new_competition(path, targets, "mean_columnwise_roc_auc", tmp_path / "b", test=tmp_path / "test.csv")
    assert final_competition(many).grade(b"id,sold,also\n0,0.1,0.2\n1,0.5,0.3\n2,0.4,0.9\n").valid


def test_tables_as_they_come(tmp_path):
    path, table = write(tmp_path)
    table.to_csv(path)  # with its index, which reveals the price
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine")
    assert not any("Unnamed" in name for name in pd.read_csv(comp.public_dir / "train.csv"))
    path, _ = write(tmp_path, price=[float(10**25 + i * 10**24) for i in range(80)])
    comp = new_competition(path, ["price"], "rmse", tmp_path / "large")
    assert (pd.read_csv(comp.answers)["price"] > 0).all()


def test_a_target_that_occurs_twice(tmp_path, caplog):
    """As in joined tables: programs would see the hidden labels in the second."""
    path, table = write(tmp_path)
    pd.concat([table, table["sold"]], axis=1).to_csv(path, index=False)
    new_competition(path, ["sold"], "accuracy", tmp_path / "mine")
    assert "determines 'sold' exactly: 'price', 'sold.1'" in caplog.text


def telling(count, target):
    """Columns that determine a target, each in its own way."""
    rank = np.argsort(np.argsort(target, kind="stable"))
    return {
        "copy": target,
        "renamed": [f"<{value}>" for value in target],
        "finer": [f"{value}, {row % 3}" for row, value in enumerate(target)],
        "threshold": rank + 0.5,
        "falling": -rank,
    }


def innocent(count, target):
    """Columns that do not, or do so only because no two rows have the same value."""
    return {
        "row": [f"row {i}" for i in range(count)],
        "measured": np.random.RandomState(0).rand(count),
        "nearly": [*target[: count - 1], target[0]],
        "coarser": [i // (count // 4 + 1) for i in range(count)],
    }


@pytest.mark.parametrize(
    "target",
    [[i * 3 // 80 for i in range(80)], [1.5 * i for i in range(80)], [["no", "yes"][i // 50] for i in range(80)]],
    ids=["labels", "measurements", "texts"],
)
def test_columns_that_determine_the_target_are_reported(tmp_path, caplog, target):
    metric = "accuracy" if len(set(target)) < 5 else "rmse"
    columns = telling(80, target)
    if metric == "rmse":  # one value for each row, as an id has
        del columns["renamed"], columns["finer"]
    pd.DataFrame(columns | innocent(80, target) | {"target": target}).to_csv(tmp_path / "t.csv", index=False)
    new_competition(tmp_path / "t.csv", ["target"], metric, tmp_path / "mine")
    assert caplog.messages == [
        f"each of these columns determines 'target' exactly: {', '.join(map(repr, columns))}; leave out those that are not "
        "known before it is"
    ]


def test_ids_that_determine_the_target_are_reported(tmp_path, caplog):
    path, _ = write(tmp_path, number=range(80))
    new_competition(path, ["sold"], "accuracy", tmp_path / "mine", id_column="number")
    assert "determines 'sold' exactly: 'price', 'number';" in caplog.text.replace(
        "'number', 'price'", "'price', 'number'"
    )


def test_rare_labels_are_not_determined_by_chance(tmp_path, caplog):
    path, _ = write(tmp_path, sold=[0] * 78 + [1] * 2)
    new_competition(path, ["sold"], "accuracy", tmp_path / "mine")
    assert not caplog.records


def test_ids_that_are_equal_to_programs(tmp_path):
    for ids, message in (
        (["1", "01", *map(str, range(2, 80))], "two rows have the id '01' and '1': name a column with --id"),
        (
            ["1", "1.0", "x", *map(str, range(2, 79))],
            "two rows have the id '1' and '1.0'",
        ),  # the test rows alone may all be numbers
        (["a", "a", *map(str, range(78))], "two rows have the id 'a'"),
        (["NA", *map(str, range(79))], "'NA' is no id: programs would read it as a missing value"),
    ):
        path, _ = write(tmp_path, id=ids)
        with pytest.raises(CompetitionError, match=f"^{message}"):
            new_competition(path, ["price"], "rmse", tmp_path / "mine", "id")
    comp = new_competition(path, ["price"], "rmse", tmp_path / "made")
    assert comp.id_column == "row_id"
    path, _ = write(tmp_path, id=[f"{i}e{10**9 + i}" for i in range(40)] + [str(10**20 + i) for i in range(40)])
    assert new_competition(path, ["price"], "rmse", tmp_path / "mine").id_column == "id"


@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        ([str(month) for month in range(1, 13)], [f"y_{month}" for month in range(1, 13)]),
        (["TRUE", "FALSE"], ["y_False", "y_True"]),
        (["01", "+2", "-1"], ["y_-1", "y_1", "y_2"]),
        (["10.0", "9.0"], ["y_9.0", "y_10.0"]),
        (["b", "a 10", "a 9"], ["y_a 10", "y_a 9", "y_b"]),
        (["10", "9", "x"], ["y_10", "y_9", "y_x"]),
    ],
    ids=["months", "truth values", "signs and zeros", "floats", "texts", "numbers and a text"],
)
def test_columns_of_labels_are_those_of_a_model(tmp_path, labels, columns):
    """A program may fill them in order, or name them by the labels that it has read."""
    table = pd.DataFrame({"x": range(240), "y": labels * (240 // len(labels))})
    table.to_csv(tmp_path / "t.csv", index=False)
    comp = new_competition(tmp_path / "t.csv", ["y"], "log_loss", tmp_path / "mine")
    assert list(comp.target_columns) == columns
    shown = ", ".join(column.removeprefix("y_") for column in columns)
    (prompt,) = scratch_prompt(comp, Limits())
    assert f"the probability of each label, in ascending order, as in classes_: {shown}." in prompt["content"]

    train, test, sample = (
        pd.read_csv(comp.public_dir / f"{name}.csv") for name in ("train", "test", "sample_submission")
    )
    x, y = train[["x"]] % len(labels), train["y"].astype(str if "x" in labels else train["y"].dtype)
    model = DecisionTreeClassifier(random_state=0).fit(x, y)
    probabilities = model.predict_proba(test[["x"]] % len(labels))
    in_order = sample.copy()
    in_order.iloc[:, 1:] = probabilities
    named = pd.DataFrame(probabilities, columns=[f"y_{label}" for label in model.classes_]).assign(id=test["id"])
    for submission in (in_order, named):
        assert comp.grade(submission.to_csv(index=False).encode()).value == 0


def test_a_constant_guess_of_probabilities_is_the_share_of_each_label(tmp_path):
    path, _ = write(tmp_path, kind=["a"] * 60 + ["b"] * 20)
    comp = new_competition(path, ["kind"], "log_loss", tmp_path / "mine")
    assert pd.read_csv(comp.sample_submission)[["kind_a", "kind_b"]].drop_duplicates().values.tolist() == [
        [0.75, 0.25]
    ]
    assert comp.grade(comp.sample_submission).value == pytest.approx(0.56234, abs=1e-5)  # the entropy


MINE = """
def within_a_fifth(y_true, y_pred):
    return (abs(y_true - y_pred) <= abs(y_true) / 5).to_numpy().mean()

def same(y_true, y_pred):
    return (y_true == y_pred).to_numpy().mean()

def broken(y_true, y_pred):
    return y_true.mean() / y_pred.no_such

def table(y_true, y_pred):
    return y_true

def nothing(y_true, y_pred):
    pass
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module in the current folder, with a name of its own, because Python imports a name once."""
    name = f"mine_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return name


@pytest.mark.parametrize(
    ("target", "function", "takes", "guess"),
    [("price", "within_a_fifth", "numbers", 39000), ("kind", "same", "labels", "red"), ("sold", "same", "labels", 0)],
)
def test_a_metric_of_ones_own(tmp_path, mine, target, function, takes, guess):
    path, _ = write(tmp_path)
    comp = new_competition(path, [target], f"{mine}.{function}", tmp_path / "own", higher_is_better=True)
    layout = yaml.safe_load((tmp_path / "own" / "competition.yaml").read_text())
    assert (layout["metric"], layout["higher_is_better"], layout["takes"]) == (f"{mine}.{function}", True, takes)
    assert comp == load_competition(str(tmp_path / "own"))
    assert comp.scoring.takes == takes
    assert comp.grade(comp.answers).value == 1
    assert comp.grade(comp.sample_submission).value < 1
    constant = pd.read_csv(comp.sample_submission)[target].iloc[0]
    assert constant == guess if takes == "labels" else abs(constant - guess) < 3000
    (prompt,) = scratch_prompt(comp, Limits())
    assert f"Metric: {function.replace('_', ' ')} (higher is better)" in prompt["content"]


@pytest.mark.parametrize(
    ("function", "direction", "message"),
    [
        ("same", None, "needs higher_is_better, true or false, because it is a function$"),
        (
            "broken",
            True,
            "cannot score price: mine_.*.broken fails with AttributeError: 'DataFrame' object has no attr",
        ),
        ("table", True, "cannot score price: mine_.*.table returns .*, which is not a number$"),
        ("nothing", True, "cannot score price: mine_.*.nothing returns None, which is not a number$"),
    ],
)
def test_a_metric_of_ones_own_that_is_wrong(tmp_path, mine, function, direction, message):
    path, _ = write(tmp_path)
    with pytest.raises(CompetitionError, match=message) as caught:
        new_competition(path, ["price"], f"{mine}.{function}", tmp_path / "own", higher_is_better=direction)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "own").exists()
