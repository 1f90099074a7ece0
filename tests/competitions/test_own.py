"""A user's own competition, made from a table."""

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.tree import DecisionTreeClassifier

from trl_mle.competitions import CompetitionError, load_competition
from trl_mle.competitions.own import final_competition, folds, new_competition
from trl_mle.evaluation.choosing import like_sample
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


def texts(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False)


KINDS = [
    ("price", "rmse"),
    ("price", "pearson_correlation"),
    ("sold", "roc_auc"),
    ("kind", "log_loss"),
    ("kind", "word_level_jaccard"),
]
KIND_IDS = [f"{metric} of {target}" for target, metric in KINDS]


@pytest.mark.parametrize(("target", "metric"), KINDS, ids=KIND_IDS)
def test_it_is_one(tmp_path, target, metric):
    path, table = write(tmp_path)
    comp = new_competition(path, [target], metric, tmp_path / "mine")
    assert comp == load_competition(str(tmp_path / "mine"))
    train, test = (texts(comp.public_dir / f"{name}.csv") for name in ("train", "test"))
    assert len(test) == len(texts(comp.sample_submission)) == pytest.approx(len(table) / 4, abs=3)
    assert list(train.columns) == [*test.columns, target]
    # Every row is there once, with its cells unchanged
    cells = ["code", "note"]
    both = pd.concat([train, test])
    assert both[cells].value_counts().to_dict() == texts(path)[cells].value_counts().to_dict()
    assert sorted(both["id"].astype(int)) == list(range(len(table)))

    answers = comp.answers.read_bytes()
    perfect, guess = comp.grade(answers), comp.grade(comp.sample_submission)
    assert perfect.valid
    assert guess.valid
    assert perfect.value == pytest.approx(comp.scoring.best)
    assert comp.scoring.gain(perfect.value) > comp.scoring.gain(guess.value)
    assert load_competition(str(tmp_path / "mine"), holdout=0.5).grade(answers).held_out is not None
    assert target in scratch_prompt(comp, Limits())[0]["content"]


def test_neither_ids_nor_order_reveal_the_label(tmp_path):
    path, _ = write(tmp_path, 400)
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine")
    answers = pd.read_csv(comp.answers)
    assert abs(np.corrcoef(answers["id"], answers["price"])[0, 1]) < 0.25
    assert abs(np.corrcoef(np.arange(len(answers)), answers["price"])[0, 1]) < 0.25
    assert {"id", "price"} == set(answers.columns)


def test_programs_see_each_label(tmp_path):
    path, _ = write(tmp_path, kind=[*"ab" * 38, *"cdef"])
    comp = new_competition(path, ["kind"], "log_loss", tmp_path / "mine")
    assert set(texts(comp.public_dir / "train.csv")["kind"]) == set("abcdef")


def test_several_targets_and_an_id_of_ones_own(tmp_path):
    path, table = write(tmp_path, more=[float(i % 13) for i in range(80)], name=[f"row {i}" for i in range(80)])
    comp = new_competition(path, ["price", "more"], "mean_columnwise_rmsle", tmp_path / "mine", id_column="name")
    assert (comp.target_columns, comp.id_column) == (("price", "more"), "name")
    assert set(pd.read_csv(comp.public_dir / "test.csv")["name"]) < set(table["name"])


FEW = {
    "odd": [*range(79), "inf"],
    "prize": [1.5] * 19 + [""] * 61,
    "same": 5.5,
    "small": np.arange(80) / 1e9,
    "late": [*"abc" * 26, "d", "d"],
    "late_a": 1,
    "last": [*"abc" * 26, "d", "d"],
    "month": [f"{1 + i % 12}{2020 + i // 12}" for i in range(80)],
}
BAD = {
    "no such column": ({"targets": ["prise"]}, "has no column 'prise'; did you mean 'prize' or 'price'"),
    "infinite": ({"targets": ["odd"]}, "rmse needs numbers, and 'odd' holds 'inf' in row 81: correct or empty it"),
    "not two labels": ({"targets": ["kind"], "metric": "roc_auc"}, "roc_auc needs two labels in 'kind', which holds"),
    "labels in order": (
        {"targets": ["late"], "metric": "quadratic_weighted_kappa"},
        "needs numbers, and 'late' holds 'a'",
    ),
    "a label's column": ({"targets": ["late"], "metric": "log_loss"}, "has a column 'late_a' for a label: rename the"),
    "continuous": ({"metric": "accuracy"}, "looks continuous (0.5, say), and accuracy is for labels"),
    "the same": ({"targets": ["same"]}, "'same' is '5.5' in all rows: there is nothing to learn"),
    "two targets": ({"targets": ["sold", "kind"], "metric": "accuracy"}, "accuracy cannot score sold, kind: "),
    "small": ({"targets": ["small"]}, "a constant guess scores 0.00000, and scores have five decimals"),
    "few rows": ({"targets": ["prize"]}, "has 19 rows with 'prize': take 20 at least"),
    "ids twice": ({"id_column": "code"}, "two rows have the code '00"),
    "split by nothing": ({"split": "random"}, "--split must be time:COLUMN or group:COLUMN, with one of 'code'"),
    "share": ({"test_share": 1.0}, "test_share must be between 0 and 1, got 1"),
    "all hidden": ({"split": "group:same"}, "80 of 80 rows would be hidden: take another --test_share"),
    "a late label": ({"targets": ["last"], "metric": "log_loss", "split": "time:id"}, "time:id hides all rows of 'd'"),
    "months": ({"split": "time:month"}, "'month' is '12020' in row 2"),
    "name of ours": ({"folder": Path("wine")}, "'wine' lacks letters from a to z, or is ours"),
    "a metric that fails": (
        {"metric": "math.gcd", "higher_is_better": True},
        "cannot score price: math.gcd fails with TypeError: ",
    ),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_one(tmp_path, monkeypatch, options, message):
    path, _ = write(tmp_path, **FEW, id=range(80))
    monkeypatch.chdir(tmp_path)
    arguments = {"table": path, "targets": ["price"], "metric": "rmse", "folder": tmp_path / "mine"} | options
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        new_competition(**arguments)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]  # no partial output


def test_a_folder_that_cannot_be_made(tmp_path):
    path, _ = write(tmp_path)
    with pytest.raises(FileNotFoundError, match="/proc/"):
        new_competition(path, ["price"], "rmse", Path("/proc/houses"))
    with pytest.raises(FileExistsError, match="exists: name another folder with --to"):
        new_competition(path, ["price"], "rmse", tmp_path)
    path.write_text("b\n" + "1\n2\n" * 20)
    with pytest.raises(CompetitionError, match="has no column but id, b"):
        new_competition(path, ["b"], "rmse", tmp_path / "mine")


@pytest.mark.parametrize(("labels", "rule"), [("ab", "labels as in the training data"), ("12", "whole numbers")])
def test_the_description_says_what_predictions_are(tmp_path, labels, rule):
    path, _ = write(tmp_path, grade=list(labels) * 40, size=range(80))
    competition = new_competition(path, ["grade"], "accuracy", tmp_path / "mine")
    assert competition.rule == f"Predictions are {rule}."
    assert competition.rule in competition.description


@pytest.mark.parametrize(
    ("labels", "meaning"), [(("no", "yes"), "'yes' and 0 for 'no'"), (("FALSE", "TRUE"), "True and 0 for False")]
)
def test_two_labels_become_0_and_1(tmp_path, caplog, labels, meaning):
    """As scikit-learn orders them, and programs see them."""
    path, table = write(tmp_path, sold=[labels[i % 4 == 0] for i in range(80)])
    comp = new_competition(path, ["sold"], "f1", tmp_path / "mine", test=others(tmp_path, table))
    assert f"'sold': 1 stands for {meaning}" in caplog.messages
    meaning = meaning.replace("' and", ",").replace(" and", ",").replace("'", "")
    assert f"Predict `sold` (1 for {meaning}) of each row" in comp.description
    for known in comp.answers, comp.public_dir / "train.csv", tmp_path / "mine" / "final" / "train.csv":
        assert pd.read_csv(known)["sold"].mean() == 0.25


def test_rows_without_a_target_are_set_aside(tmp_path, caplog):
    path, _ = write(tmp_path, price=["", "NA", "None", *range(5, 82)], more=[*range(79), None])
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine")
    assert "rows without 'price' are set aside: '' in row 2 and 2 more" in caplog.messages
    parts = [pd.read_csv(comp.public_dir / "train.csv")["price"], pd.read_csv(comp.answers)["price"]]
    assert sorted(pd.concat(parts)) == list(range(5, 82))
    new_competition(path, ["price", "more"], "mean_columnwise_rmsle", tmp_path / "both")
    assert "rows without 'price' or 'more' are set aside: '' in row 2 and 3 more" in caplog.messages


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
    table.to_csv(path)  # with its index, which reveals the price
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine", test=others(tmp_path, table))
    assert "columns with the same cell in all rows are left out: 'empty', 'missing', 'country'" in caplog.messages
    for test in comp.public_dir / "test.csv", tmp_path / "mine" / "final" / "test.csv":
        assert list(pd.read_csv(test)) == ["id", "code", "note", "sold", "kind", "rare"]


@pytest.mark.parametrize(("name", "is_one"), [("PassengerId", 1), ("house ID", 1), ("paid", 0)])
def test_ids_are_found_by_their_name(tmp_path, name, is_one):
    """With a file of rows to predict or without, so that a policy that was trained on one of the folders knows the other."""
    path, table = write(tmp_path, **{name: range(1, 81)})
    others(tmp_path, table.assign(**{name: range(101, 181)}))
    alone = new_competition(path, ["price"], "rmse", tmp_path / "alone")
    twin = new_competition(path, ["price"], "rmse", tmp_path / "twin", test=tmp_path / "test.csv")
    assert alone.id_column == twin.id_column == (name if is_one else "id")
    ids = pd.read_csv(final_competition(twin).sample_submission)[twin.id_column]
    assert list(ids) == list(range(101, 181) if is_one else range(80))


def test_ids_that_are_equal_to_programs(tmp_path):
    for ids, message in (
        (["1", "1.0", "x", *map(str, range(2, 79))], "two rows have the id '1' and '1.0'"),
        (["NA", *map(str, range(79))], "'NA' is no id: programs would read it as a missing value"),
    ):
        path, _ = write(tmp_path, id=ids)
        with pytest.raises(CompetitionError, match=f"^{message}"):
            new_competition(path, ["price"], "rmse", tmp_path / "mine", "id")
    comp = new_competition(path, ["price"], "rmse", tmp_path / "made")
    assert comp.id_column == "row_id"
    path, _ = write(tmp_path, id=[f"{i}e{10**9 + i}" for i in range(40)] + [str(10**20 + i) for i in range(40)])
    assert new_competition(path, ["price"], "rmse", tmp_path / "mine").id_column == "id"


# --- What is hidden

DAYS = [f"2024-{1 + i // 28:02}-{1 + i % 28:02}" for i in range(80)]
TIMES = {
    "2024-03-04, hidden rows begin 2024-03-05": DAYS,
    "29.5, hidden rows begin 30.0": [str(i / 2) for i in range(80)],
}


@pytest.mark.parametrize(("border", "times"), TIMES.items(), ids=["days", "numbers"])
def test_the_last_rows_are_hidden(tmp_path, caplog, border, times):
    path, _ = write(tmp_path, at=times)
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine", split="time:at")
    assert set(pd.read_csv(comp.public_dir / "test.csv", dtype=str)["at"]) == set(times[60:])
    assert "By `at`, the rows of test.csv come after those of train.csv." in comp.description
    assert f"--split time:at: train.csv ends {border}" in caplog.messages


def test_dates_that_may_be_misread_are_refused(tmp_path):
    path, _ = write(tmp_path, at=[f"{1 + i % 12:02}/{1 + i // 12:02}/2024 01:05 PM" for i in range(80)])
    with pytest.raises(CompetitionError, match="which is not a number or a date such as"):
        new_competition(path, ["price"], "rmse", tmp_path / "mine", split="time:at")
    form = "%m/%d/%Y %I:%M %p"
    for number, date_format in enumerate((form, {"at": form})):
        options = {"split": "time:at", "read_csv": {"date_format": date_format}}
        comp = new_competition(path, ["price"], "rmse", tmp_path / f"mine{number}", **options)
        assert set(pd.read_csv(comp.public_dir / "test.csv")["at"].str[:2]) == {"09", "10", "11", "12"}


def test_whole_groups_are_hidden(tmp_path):
    """Those that programs may read as equal together."""
    path, _ = write(tmp_path, who=[f"{'0' * (i % 3)}{i % 8}" for i in range(80)])
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine", split="group: who")
    train, test = (set(pd.read_csv(comp.public_dir / f"{part}.csv")["who"]) for part in ("train", "test"))
    assert (len(test), train & test) == (2, set())
    assert comp.group_column == "who"
    assert "No `who` of test.csv is in train.csv." in comp.description


@pytest.mark.parametrize("labels", ["12", ("False", "True")])
def test_a_text_among_labels_that_only_rows_to_learn_from_have(tmp_path, labels):
    grades = ["x" if i < 8 else labels[i % 2] for i in range(80)]
    path, _ = write(tmp_path, at=[str(i) for i in range(80)], grade=grades)
    comp = new_competition(path, ["grade"], "accuracy", tmp_path / "mine", split="time:at")
    assert comp.text_columns == ("grade",)
    answers = pd.read_csv(comp.answers, dtype=str)
    assert set(answers["grade"]) == set(labels)
    assert comp.grade(comp.answers).value == 1
    answers.loc[0, "grade"] = "x"
    assert comp.grade(answers.to_csv(index=False).encode()).value == 0.95
    assert "whole numbers" not in scratch_prompt(comp, Limits())[0]["content"]
    assert new_competition(path, ["grade"], "accuracy", tmp_path / "random").text_columns == ()


# --- What the table gives away


def test_a_random_split_that_may_leak_is_reported(tmp_path, caplog):
    path, _ = write(tmp_path, **{"the day": DAYS, "storm_id": [i // 10 for i in range(80)]})
    new_competition(path, ["price"], "rmse", tmp_path / "days")
    advice = [message.partition("add ")[2] for message in caplog.messages]
    assert advice == ["--split 'time:the day'", "--split group:storm_id"]
    caplog.clear()
    path, _ = write(tmp_path, year=[2000 + i // 8 for i in range(80)])
    new_competition(path, ["price"], "rmse", tmp_path / "years")
    assert [message.partition(",")[0] for message in caplog.messages] == ["'year' holds times"]
    caplog.clear()
    innocent = {"built": [1990 + i // 8 for i in range(80)], "part": [f"{i}-2001x" for i in range(80)]}
    path, _ = write(tmp_path, name=[f"n{i}" for i in range(80)], **innocent)
    new_competition(path, ["price"], "rmse", tmp_path / "mine")
    assert not caplog.messages


def test_copies_are_reported(tmp_path, caplog):
    """Of hidden rows; and of a target, as in joined tables, where programs would see the hidden labels in the second."""
    path, table = write(tmp_path, size=[i % 7 + i / 100 for i in range(80)])
    pd.concat([table, table]).to_csv(path, index=False)
    new_competition(path, ["price"], "rmse", tmp_path / "rows")
    [line] = caplog.messages  # none that a column determines the price
    assert "hidden rows are also in train.csv, with their targets" in line
    pd.concat([table, table["sold"]], axis=1).to_csv(path, index=False)
    new_competition(path, ["sold"], "accuracy", tmp_path / "targets")
    assert "determines 'sold' exactly: 'price', 'sold.1'" in caplog.text


def telling(target):
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
    columns = telling(target)
    if metric == "rmse":  # one value for each row, as an id has
        del columns["renamed"], columns["finer"]
    pd.DataFrame(columns | innocent(80, target) | {"target": target}).to_csv(tmp_path / "t.csv", index=False)
    new_competition(tmp_path / "t.csv", ["target"], metric, tmp_path / "mine")
    [line] = caplog.messages
    assert line.startswith(f"each of these columns determines 'target' exactly: {', '.join(map(repr, columns))}; ")


# --- Rows without labels


@pytest.mark.parametrize(("target", "metric"), KINDS, ids=KIND_IDS)
def test_rows_whose_labels_nobody_knows(tmp_path, target, metric):
    id_column = "house" if target == "sold" else None
    ids = {} if id_column is None else {id_column: range(80)}
    path, table = write(tmp_path, **ids)
    unknown = table.tail(7).drop(columns=[target]).assign(other=1, **{name: range(100, 107) for name in ids})
    test = others(tmp_path, unknown)
    comp = new_competition(path, [target], metric, tmp_path / "mine", id_column, test=test)
    final = final_competition(comp)
    train, test, sample = (texts(final.public_dir / f"{name}.csv") for name in ("train", "test", "sample_submission"))
    assert len(train) == len(table)
    assert list(train.columns) == list(texts(comp.public_dir / "train.csv").columns) == [*test.columns, target]
    assert list(test[comp.id_column]) == list(sample[comp.id_column]) == [str(i + 100 * bool(ids)) for i in range(7)]
    assert set(test["note"]) == {"of nobody"}
    assert list(sample.columns) == list(pd.read_csv(comp.sample_submission).columns)
    assert final.description == comp.description
    assert not final.grade(comp.sample_submission).valid
    if metric != "pearson_correlation":  # undefined for a constant
        assert final.grade(final.sample_submission).valid
    assert_each_row_is_hidden_once(comp)
    without = new_competition(path, [target], metric, tmp_path / "without", id_column)
    assert final_competition(without) is None
    assert not folds(without)


def assert_each_row_is_hidden_once(comp):
    """In the competition, or in one of its folds, which show all other labels."""
    parts = [comp, *folds(comp)]
    assert len(parts) == 4
    labelled = texts(final_competition(comp).public_dir / "train.csv").set_index(comp.id_column)
    hidden = [texts(part.public_dir / "test.csv").set_index(comp.id_column) for part in parts]
    assert sorted(pd.concat(hidden).index) == sorted(labelled.index)
    assert {len(rows) for rows in hidden} <= {len(labelled) // 4 + i for i in (-1, 0, 1)}
    for part, rows in zip(parts, hidden, strict=True):
        train = texts(part.public_dir / "train.csv").set_index(comp.id_column)
        assert sorted([*train.index, *rows.index]) == sorted(labelled.index)
        assert train.equals(labelled.loc[train.index])
        assert rows.equals(labelled.loc[rows.index, list(rows)])
        assert part.description == comp.description
        for other in parts:
            assert other.grade(part.sample_submission).valid == (other is part) or comp.metric == "pearson_correlation"


def test_folds_hide_whole_groups_and_nothing_that_comes_later(tmp_path):
    path, table = write(tmp_path, house=[i % 9 for i in range(80)], day=range(80))
    test = others(tmp_path, table.tail(7).drop(columns="price"))
    comp = new_competition(path, ["price"], "rmse", tmp_path / "groups", test=test, split="group:house")
    for part in (comp, *folds(comp)):
        train, hidden = (set(texts(part.public_dir / f"{name}.csv")["house"]) for name in ("train", "test"))
        assert hidden
        assert not train & hidden
    assert len(folds(comp)) == 3
    assert not folds(new_competition(path, ["price"], "rmse", tmp_path / "time", test=test, split="time:day"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.drop(columns="house"), "lacks 'house', which"),
        (lambda rows: rows.assign(house=3), "two rows have the house '3'"),
        (lambda rows: rows.assign(sold="?"), "'sold' holds numbers in the rows with labels, and '[?]' in row 2"),
    ],
)
def test_rows_that_cannot_be_predicted(tmp_path, change, message):
    path, table = write(tmp_path, house=range(80))
    change(table.tail(7)).to_csv(tmp_path / "test.csv", index=False)
    with pytest.raises(CompetitionError, match=message):
        new_competition(path, ["price"], "rmse", tmp_path / "mine", "house", test=tmp_path / "test.csv")
    assert not (tmp_path / "mine").exists()


def test_any_label_may_be_predicted_for_few_rows_of_any_ids(tmp_path):
    path, table = write(tmp_path)
    rows = table.tail(3).assign(id=["077", "5", "42"]).drop(columns="price")
    options = {"test": others(tmp_path, rows), "read_csv": {"skipfooter": 1}}
    final = final_competition(new_competition(path, ["price"], "rmse", tmp_path / "mine", **options))
    assert list(pd.read_csv(final.sample_submission, dtype=str)["id"]) == ["077", "5", "42"]
    content = like_sample(b"id,price,more\n42,3,x\n77,1,x\n5,2,x\n", final)
    assert content == b"id,price\n077,1\n5,2\n42,3\n"

    path, table = write(tmp_path, kind=["0", "1", "2", "x"] * 20)
    options["test"].write_text(others(tmp_path, table.tail(3)).read_text() + "Total,,,,\n")
    final = final_competition(new_competition(path, ["kind"], "accuracy", tmp_path / "a", **options))
    assert final.grade(b"id,kind\n0,x\n1,1\n2,2\n").valid


# --- What predictions are


@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        (["TRUE", "FALSE"], ["y_False", "y_True"]),
        (["01", "+2", "-1"], ["y_-1", "y_1", "y_2"]),
        (["10", "9", "x"], ["y_10", "y_9", "y_x"]),
    ],
    ids=["truth values", "signs and zeros", "numbers and a text"],
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


@pytest.mark.parametrize(
    ("target", "function", "takes"), [("price", "max_error", "numbers"), ("kind", "accuracy_score", "labels")]
)
def test_a_metric_of_ones_own(tmp_path, target, function, takes):
    path, _ = write(tmp_path)
    options = {"metric": f"sklearn.metrics.{function}", "higher_is_better": takes == "labels"}
    comp = new_competition(path, [target], folder=tmp_path / "own", **options)
    layout = yaml.safe_load((tmp_path / "own" / "competition.yaml").read_text())
    assert options.items() <= layout.items()
    assert layout["takes"] == comp.scoring.takes == takes
    assert comp == load_competition(str(tmp_path / "own"))
    assert comp.grade(comp.answers).value == (takes == "labels")
    assert 0 < comp.grade(comp.sample_submission).value != 1
    (prompt,) = scratch_prompt(comp, Limits())
    assert f"Metric: {function.replace('_', ' ')} (" in prompt["content"]
