"""A user's own competition, made from a table."""

import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.tree import DecisionTreeClassifier

from trl_mle.competitions import CompetitionError, load_competition
from trl_mle.competitions.own import final_competition, new_competition
from trl_mle.evaluation.submission_search import average
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
        "unknown metric 'x'; known are log_loss, .* and your own as my_module:my",
    ),
    "texts": (
        {"targets": ["kind"]},
        "rmse needs numbers, and 'kind' holds .*: take accuracy, f1_macro or log_loss for la",
    ),
    "no texts": ({"metric": "word_level_jaccard"}, "word_level_jaccard compares texts, and 'price' holds "),
    "not 0 and 1": (
        {"targets": ["kind"], "metric": "roc_auc"},
        "roc_auc needs 0 and 1 in 'kind', which holds 'red', 'rosé', 'white, dry', say: take log_loss for labels, or rmse",
    ),
    "continuous": (
        {"metric": "accuracy"},
        "5, say., and accuracy is for labels: take rmse, mae or r2$",
    ),
    "two targets": (
        {"targets": ["sold", "kind"], "metric": "accuracy"},
        "^accuracy cannot score sold, kind: the metric is one of a single target column, not of 2$",
    ),
    "too many labels": ({"metric": "log_loss"}, "'price' has 80 different values: those are no labels"),
    "ids twice": ({"id_column": "code"}, "two rows have the code '00"),
    "empty": ({"targets": ["note"], "metric": "accuracy"}, "20 of 80 rows have no 'note': leave them out"),
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


def test_the_description_says_what_predictions_are(tmp_path):
    path, _ = write(tmp_path, mood=["happy", "angry"] * 40, grade=[1, 2] * 40, size=range(80))
    for target, rule in ("mood", "Predictions are labels"), ("grade", "Predictions are whole numbers"):
        text = new_competition(path, [target], "accuracy", tmp_path / target).description
        assert text.count("Predictions are") == 1
        assert rule in text


def test_labels_that_are_named_otherwise(tmp_path):
    path, _ = write(tmp_path, sold=["yes", "no"] * 40, price=range(80))
    with pytest.raises(
        CompetitionError, match="needs 0 and 1 in 'sold': write 0 for 'no' and 1 for 'yes', or the other"
    ):
        new_competition(path, ["sold"], "roc_auc", tmp_path / "mine")
    with pytest.raises(CompetitionError, match=r"'price' looks continuous \(\d+, say\), and accuracy is for labels"):
        new_competition(path, ["price"], "accuracy", tmp_path / "mine")


def test_tables_that_are_none(tmp_path):
    for name, content, message in (
        ("few", "a,b\n" + "1,2\n" * 19, "has 19 rows: take 20 at least"),
        ("alone", "b\n" + "1\n2\n" * 20, "has no column but id, b"),
        ("binary", b"\xff\xfe\x00", "is not in UTF-8: save it as CSV in UTF-8"),
        ("empty", "", "is not a CSV file"),
    ):
        path = tmp_path / f"{name}.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(CompetitionError, match=message):
            new_competition(path, ["b"], "rmse", tmp_path / "mine")
    with pytest.raises(FileExistsError, match="exists: name another folder with --to"):
        new_competition(path, ["b"], "rmse", tmp_path)


def test_other_separators_are_named(tmp_path):
    path, table = write(tmp_path)
    for separator, decimal, name in ((";", ".", "semicolons"), (";", ",", "semicolons"), ("\t", ".", "tabs")):
        table.drop(columns="note").to_csv(path, index=False, sep=separator, decimal=decimal)
        with pytest.raises(CompetitionError, match=f"; it looks separated by {name}: write it with commas$"):
            new_competition(path, ["price"], "rmse", tmp_path / "mine")
    write(tmp_path)
    table.drop(columns=["price", "note", "kind"]).to_csv(tmp_path / "test.csv", index=False, sep="|")
    with pytest.raises(CompetitionError, match="which the rows with labels have; it looks separated by vertical bars"):
        new_competition(path, ["price"], "rmse", tmp_path / "mine", test=tmp_path / "test.csv")


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
        (lambda rows: rows.drop(columns="code"), "has no column 'code', which the rows with labels have"),
        (lambda rows: rows.drop(columns="house"), "has no column 'house'"),
        (lambda rows: rows.head(1), "has 1 rows: take 2 at least"),
        (lambda rows: rows.assign(house=3), "two rows have the house '3'"),
    ],
)
def test_rows_that_cannot_be_predicted(tmp_path, change, message):
    path, table = write(tmp_path, house=range(80))
    change(table.tail(7)).to_csv(tmp_path / "test.csv", index=False)
    with pytest.raises(CompetitionError, match=message):
        new_competition(path, ["price"], "rmse", tmp_path / "mine", "house", test=tmp_path / "test.csv")
    assert not (tmp_path / "mine").exists()


def test_ids_of_the_rows_without_labels_are_kept(tmp_path):
    path, table = write(tmp_path)
    table.tail(3).assign(id=["077", "5", "42"]).drop(columns="price").to_csv(tmp_path / "test.csv", index=False)
    final = final_competition(new_competition(path, ["price"], "rmse", tmp_path / "mine", test=tmp_path / "test.csv"))
    assert list(pd.read_csv(final.sample_submission, dtype=str)["id"]) == ["077", "5", "42"]
    content = average([b"id,price,more\n42,3,x\n77,1,x\n5,2,x\n"], final)
    assert content == b"id,price\n077,1\n5,2\n42,3\n"


def test_any_label_may_be_predicted_for_few_rows(tmp_path):
    path, table = write(tmp_path, kind=["0", "1", "2", "x"] * 20, also=[0, 1] * 40)
    table.tail(3).to_csv(tmp_path / "test.csv", index=False)
    final = final_competition(new_competition(path, ["kind"], "accuracy", tmp_path / "a", test=tmp_path / "test.csv"))
    assert final.grade(b"id,kind\n0,x\n1,1\n2,2\n").valid
    targets = ["sold", "also"]
    many = new_competition(path, targets, "mean_columnwise_roc_auc", tmp_path / "b", test=tmp_path / "test.csv")
    assert final_competition(many).grade(b"id,sold,also\n0,0.1,0.2\n1,0.5,0.3\n2,0.4,0.9\n").valid


def test_tables_as_they_come(tmp_path):
    path, table = write(tmp_path)
    (tmp_path / "commas.csv").write_text("code,price\n" + "".join(f"{i},{i / 2},\n" for i in range(40)))
    with pytest.raises(CompetitionError, match="has rows with more cells than its header has names"):
        new_competition(tmp_path / "commas.csv", ["price"], "rmse", tmp_path / "mine")
    table.to_csv(path)  # with its index, which reveals the price
    comp = new_competition(path, ["price"], "rmse", tmp_path / "mine")
    assert not any("Unnamed" in name for name in pd.read_csv(comp.public_dir / "train.csv"))
    path, _ = write(tmp_path, price=[float(10**25 + i * 10**24) for i in range(80)])
    comp = new_competition(path, ["price"], "rmse", tmp_path / "large")
    assert (pd.read_csv(comp.answers)["price"] > 0).all()
    path, _ = write(tmp_path, id=["NA", *map(str, range(79))])
    with pytest.raises(CompetitionError, match="'NA' is no id: programs would read it as a missing value"):
        new_competition(path, ["price"], "rmse", tmp_path / "missing")


def test_a_name_that_occurs_twice(tmp_path):
    """As in joined tables: pandas would call the second `sold.1`, and programs would see the hidden labels in it."""
    path, table = write(tmp_path)
    pd.concat([table, table["sold"]], axis=1).to_csv(path, index=False)
    message = r"table.csv has two columns named 'sold': leave one out, or rename it if it holds something else$"
    with pytest.raises(CompetitionError, match=message):
        new_competition(path, ["sold"], "accuracy", tmp_path / "mine")
    (tmp_path / "labelled").mkdir()
    other, _ = write(tmp_path / "labelled")
    with pytest.raises(CompetitionError, match=message):
        new_competition(other, ["sold"], "accuracy", tmp_path / "mine", test=path)


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
        "constant": [1] * count,
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
    (record,) = caplog.records
    assert record.getMessage() == (
        f"each of these columns determines 'target' exactly: {', '.join(map(repr, columns))}; leave out those that are not "
        "known before it is"
    )


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


def test_labels_that_programs_would_read_as_missing(tmp_path):
    for word in ("None", "NA", "n/a", "<NA>"):
        path, _ = write(tmp_path, kind=["red", word] * 40)
        message = (
            f"40 of 80 rows have the 'kind' '{word}', which programs would read as a missing value: write a label in"
        )
        with pytest.raises(CompetitionError, match=message):
            new_competition(path, ["kind"], "accuracy", tmp_path / "mine")


def test_ids_that_are_equal_to_programs(tmp_path):
    for ids, twice in (
        (["1", "01", *map(str, range(2, 80))], "'01' and '1'"),
        (["1", "1.0", "x", *map(str, range(2, 79))], "'1' and '1.0'"),  # the test rows alone may all be numbers
        (["a", "a", *map(str, range(78))], "'a'"),
    ):
        path, _ = write(tmp_path, id=ids)
        with pytest.raises(CompetitionError, match=f"^two rows have the id {twice}: name a column with --id"):
            new_competition(path, ["price"], "rmse", tmp_path / "mine")
    path, _ = write(tmp_path, id=[f"{i}e{10**9 + i}" for i in range(40)] + [str(10**20 + i) for i in range(40)])
    new_competition(path, ["price"], "rmse", tmp_path / "mine")


@pytest.mark.parametrize(
    "first", [("5.1", "3.5", "setosa"), ("0", "0", "a"), ("7", "3", "x")], ids=["floats", "equal", "label seen once"]
)
def test_a_table_without_names(tmp_path, first):
    kinds = ["setosa", "virginica", "a"] if first[2] != "x" else [f"kind {i}" for i in range(40)]
    rows = [first, *((5 + i % 9 / 10, i % 7, kinds[i % len(kinds)]) for i in range(40))]
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False, header=False)
    with pytest.raises(
        CompetitionError, match=rf"the first line of .*t.csv looks like data \('{first[0]}', say\): write a"
    ):
        new_competition(tmp_path / "t.csv", [first[1]], "rmse", tmp_path / "mine")


def test_names_that_are_numbers(tmp_path):
    for names in (["0", "1", "2", "label"], ["2018", "2020", "2024", "country"], ["country", "1", "7", "2"]):
        columns = {name: [i % 50 for i in range(40)] for name in names}
        columns |= {"country": [f"country {i}" for i in range(40)]} if "country" in names else {}
        pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
        if names[1:] == ["1", "7", "2"]:  # years or measurements: these cannot be told apart
            with pytest.raises(CompetitionError, match="looks like data"):
                new_competition(tmp_path / "t.csv", [names[1]], "rmse", tmp_path / "mine")
        else:
            new_competition(tmp_path / "t.csv", [names[2]], "rmse", tmp_path / f"by {names[3]}")


def test_columns_without_a_name(tmp_path):
    """An empty one comes from a comma at the end of each line; one that counts is an index."""
    lines = [f"{i},{i % 5},{i % 7},,x" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join([",a,b,,", *lines]) + "\n")
    comp = new_competition(tmp_path / "t.csv", ["b"], "rmse", tmp_path / "mine")
    assert list(pd.read_csv(comp.public_dir / "test.csv")) == ["id", "a", "Unnamed: 4"]


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
    comp = new_competition(path, [target], f"{mine}:{function}", tmp_path / "own", higher_is_better=True)
    layout = yaml.safe_load((tmp_path / "own" / "competition.yaml").read_text())
    assert (layout["metric"], layout["higher_is_better"], layout["takes"]) == (f"{mine}:{function}", True, takes)
    assert comp == load_competition(str(tmp_path / "own"))
    assert (comp.scoring.takes, comp.scoring.names) == (takes, function)
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
            "cannot score price: mine_.*:broken fails with AttributeError: 'DataFrame' object has no attr",
        ),
        ("table", True, "cannot score price: mine_.*:table returns .*, which is not a number$"),
        ("nothing", True, "cannot score price: mine_.*:nothing returns None, which is not a number$"),
    ],
)
def test_a_metric_of_ones_own_that_is_wrong(tmp_path, mine, function, direction, message):
    path, _ = write(tmp_path)
    with pytest.raises(CompetitionError, match=message) as caught:
        new_competition(path, ["price"], f"{mine}:{function}", tmp_path / "own", higher_is_better=direction)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "own").exists()
