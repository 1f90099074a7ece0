"""The first lines of a program, with which an answer begins."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from PIL import Image

from trl_mle.competitions import Competition, list_competitions, load_competition
from trl_mle.execution import Limits
from trl_mle.prompts import extract_code, improve_prompt, opening, opening_of, scratch_prompt, without_opening


NAMES = [name for name in list_competitions() if name.startswith("mirror:")] + [
    "digits",
    "breast-cancer",
    "diabetes",
    "wine",
]


def run(text, comp, folder, monkeypatch):
    """What the lines of an opening define, except for the import that it ends in."""
    lines = text.splitlines()
    assert lines[0] == "```python"
    assert lines[-1].startswith("from sklearn")
    if not (folder / "input").exists():
        (folder / "input").symlink_to(comp.public_dir)
    monkeypatch.chdir(folder)
    defined = {}
    exec("\n".join(lines[1:-1]), defined)  # ours
    return defined


@pytest.mark.parametrize("name", NAMES)
def test_its_lines_read_the_tables(name, tmp_path, monkeypatch):
    comp = load_competition(name)
    defined = run(opening(comp), comp, tmp_path, monkeypatch)
    train, test = defined["train"], defined["test"]
    assert list(defined["submission"].columns) == [comp.id_column]
    sample = pd.read_csv(comp.sample_submission)
    assert list(defined["submission"][comp.id_column]) == list(sample[comp.id_column])
    assert len(defined["y_train"]) == len(train)
    X, X_test = defined["X_train"], defined["X_test"]
    assert (len(X), len(X_test)) == (len(train), len(test))
    assert not isinstance(X, pd.DataFrame) or list(X.columns) == list(X_test.columns)
    assert not isinstance(X, pd.DataFrame) or not set(X.columns) & {comp.id_column, *comp.target_columns}
    assert not isinstance(X, pd.DataFrame) or all(kind.kind in "iufb" for kind in X.dtypes)
    if len(comp.target_columns) > 1:
        assert list(defined["targets"]) == list(comp.target_columns)


@pytest.mark.parametrize(
    "name", ["diabetes", "digits", "mirror:leaf-classification", "mirror:plant-pathology-2020-fgvc7"]
)
def test_a_model_may_go_on_in_three_lines(name, tmp_path, monkeypatch):
    comp = load_competition(name)
    model, predict = ("Ridge", "predict") if name == "diabetes" else ("LogisticRegression", "predict_proba")
    targets = '"progression"' if name == "diabetes" else "targets"
    text = opening(comp) + f".linear_model import {model}\n"
    text += f"submission[{targets}] = {model}().fit(X_train, y_train).{predict}(X_test)\nsubmission.to_csv('submission.csv', index=False)\n```"
    (tmp_path / "input").symlink_to(comp.public_dir)
    monkeypatch.chdir(tmp_path)
    exec(extract_code(text), {})  # ours
    assert comp.grade(tmp_path / "submission.csv").valid


def make(folder, train, test, targets=("y",), id_column="id", suffix="csv"):
    public = folder / "public"
    public.mkdir()
    (public / "description.md").write_text("# Overview\n\nWords.\n")
    for name, table in (("train", train), ("test", test)):
        path = public / f"{name}.{suffix}"
        path.write_text(json.dumps(table.to_dict("records")) if suffix == "json" else table.to_csv(index=False))
    (public / "sample.csv").write_text(f"{id_column},{','.join(targets)}\n1{',0' * len(targets)}\n")
    return Competition(
        id="made", metric="rmse", public_dir=public, sample_submission=public / "sample.csv", answers=folder / "private.csv",
        target_columns=tuple(targets), id_column=id_column,
    )  # fmt: skip


TABLE = {"id": [1, 2], "a": [0.5, 1.5], "text": ["b c", "d e"], "y": [0, 1]}


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_text_is_no_feature_where_there_are_numbers(tmp_path, monkeypatch, suffix):
    table = pd.DataFrame(TABLE)
    comp = make(tmp_path, table, table.drop(columns="y"), suffix=suffix)
    assert 'features = ["a"]  # text: text' in opening(comp)
    assert list(run(opening(comp), comp, tmp_path, monkeypatch)["X_train"].columns) == ["a"]


CATEGORIES = pd.DataFrame(
    {
        "id": range(40),
        "city": ["Rome", "New York", "Oslo", None] * 10,
        "note": [f"word {i}" for i in range(40)],
        "y": range(40),
        **{f"n{i}": range(40) for i in range(3)},
    }
)


@pytest.mark.parametrize("more", [0, 9])
def test_categories_become_indicators(tmp_path, monkeypatch, more):
    """Also those that only one of the tables has."""
    table = CATEGORIES.assign(**{f"m{i}": range(40) for i in range(more)})
    comp = make(tmp_path, table.head(30), table.tail(10).replace("Oslo", "Bern").drop(columns="y"))
    assert "  # text: note\n" in opening(comp)
    found = run(opening(comp), comp, tmp_path, monkeypatch)
    cities = ["city_Bern", "city_New York", "city_Oslo", "city_Rome"]
    numbers = [f"n{i}" for i in range(3)] + [f"m{i}" for i in range(more)]
    for X, part in (found["X_train"], found["train"]), (found["X_test"], found["test"]):
        assert sorted(X.columns) == sorted([*cities, *numbers])
        assert [X["city_Rome"].tolist(), X["n1"].tolist()] == [(part["city"] == "Rome").tolist(), part["n1"].tolist()]


def test_dates_of_a_sorted_table_are_no_categories(tmp_path, monkeypatch):
    """No row to predict has a date of the training data, and there may be thousands of them."""
    table = pd.DataFrame(
        {"id": range(300), "day": [f"2024-01-{i // 20 + 1:02}" for i in range(300)], "shop": ["a", "b"] * 150}
    )
    table = table.assign(price=table.index, y=table.index)
    comp = make(tmp_path, table.head(200), table.tail(100).drop(columns="y"))
    assert 'features = ["shop", "price"]  # text: day\n' in opening(comp)
    assert list(run(opening(comp), comp, tmp_path, monkeypatch)["X_test"].columns) == ["price", "shop_a", "shop_b"]


def test_a_folder_may_be_called_like_a_table(tmp_path):
    """As Spark's are."""
    table = pd.DataFrame(TABLE)
    comp = make(tmp_path, table, table.drop(columns="y"))
    (comp.public_dir / "more.csv").mkdir()
    (comp.public_dir / "gone.csv").symlink_to("nowhere")
    assert "train.csv" in scratch_prompt(comp, Limits())[0]["content"]


@pytest.mark.parametrize("more", [0, 9])
def test_rare_text_is_no_number(tmp_path, monkeypatch, more):
    """The first 150 rows lack it, so that pandas takes the column for one of numbers there."""
    table = pd.DataFrame(
        {f"n{i}": range(400) for i in range(2 + more)} | {f"t{i}": [f"word {j}" for j in range(400)] for i in range(3)}
    )
    table = table.assign(
        id=[*range(150), *(f"B{i}" for i in range(250))], note=[None] * 150 + ["glued"] * 250, y=range(400)
    )
    for name, train in (("in the training rows", table), ("in the test rows", table.tail(200))):
        (tmp_path / name).mkdir()
        comp = make(tmp_path / name, train, table.drop(columns="y"))
        X = run(opening(comp), comp, tmp_path / name, monkeypatch)["X_train"]
        assert all(kind.kind in "iufb" for kind in X.dtypes)
        assert {"n0", "n1"} <= set(X.columns)


@pytest.mark.parametrize("suffix", ["", ".png", ".JPG"])
def test_images_become_pixels(tmp_path, monkeypatch, suffix):
    """A column may hold names of files, or those names without an ending; each table may have its own folder."""
    table = pd.DataFrame(
        {"id": range(4), "file": [f"a{i}{'' if suffix else '.png'}" for i in range(4)], "y": range(4)}
    )
    comp = make(tmp_path, table.head(2), table.tail(2).drop(columns="y"))
    assert "pixels" not in opening(comp)
    (comp.public_dir / "images/a").mkdir(parents=True)  # of the first row's class
    Image.new("L", (9, 9)).save(comp.public_dir / f"images/a/a0{suffix or '.png'}")
    for part, rows in (("images/train", table.head(2)), ("test images", table.tail(2))):
        (comp.public_dir / part).mkdir()
        for i, name in zip(rows["y"], rows["file"], strict=True):
            Image.new("L", (50, 40 + i), color=255 if i % 2 else 0).save(comp.public_dir / part / f"{name}{suffix}")
    found = run(opening(comp), comp, tmp_path, monkeypatch)
    for X in found["X_train"], found["X_test"]:
        assert X.shape == (2, 32 * 32 * 3)
        assert X.mean(axis=1).round().tolist() == [0, 1]


def test_images_named_by_numbers_with_leading_zeros(tmp_path, monkeypatch):
    """A table's `0007` is a 7 for pandas, and its image is still 0007.png."""
    table = pd.DataFrame({"id": [f"{i:04}" for i in range(6, 12)], "y": range(6)})
    comp = make(tmp_path, table.head(3), table.tail(3).drop(columns="y"))
    (comp.public_dir / "images").mkdir()
    for i, name in enumerate(table["id"]):
        Image.new("L", (9, 9), color=255 if i % 2 else 0).save(comp.public_dir / f"images/{name}.png")
    found = run(opening(comp), comp, tmp_path, monkeypatch)
    assert [found[part].mean(axis=1).round().tolist() for part in ("X_train", "X_test")] == [[0, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize("values", [[1, 0, 0], [1, 1, 0], [0.5, 0.5, 0]])
def test_targets_that_say_the_class_become_its_number(tmp_path, monkeypatch, values):
    targets = ["x", "y", "z"]
    table = pd.DataFrame([values, [0, 1, 0]] * 3, columns=targets).assign(id=range(6), a=range(6))
    comp = make(tmp_path, table, table.drop(columns=targets), targets=targets)
    y = run(opening(comp), comp, tmp_path, monkeypatch)["y_train"]
    if values == [1, 0, 0]:
        assert y.tolist() == [0, 1] * 3
        assert "set submission[targets] to its probabilities" in opening(comp)
    else:
        assert y.equals(table[targets].astype(y.dtypes))
        assert "set submission[targets] to its predictions" in opening(comp)


def test_without_features_nobody_speaks_of_them(tmp_path):
    table = pd.DataFrame({"id": [1, 2], "y": [0, 1]})
    assert "# Fit a model to train, set submission" in opening(make(tmp_path, table, table[["id"]]))


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("lacking", ["train", "test"])
@pytest.mark.parametrize("texts", [["note"], ["note", "city"]])
def test_missing_numbers_are_filled_in(tmp_path, monkeypatch, texts, lacking, more):
    """A small model hardly ever does, and scikit-learn refuses them. Also where a later row holds a word."""
    table = CATEGORIES.drop(columns=texts).assign(n0=[*range(20), *range(20)])
    if more:
        table = pd.concat([table] * 8, ignore_index=True).astype({"n2": object})
        table.loc[200, "n2"] = "unknown"
    parts = {"train": table.head(-10).copy(), "test": table.tail(10).drop(columns="y")}
    parts[lacking].iloc[3, parts[lacking].columns.get_loc("n0")] = None
    comp = make(tmp_path, parts["train"], parts["test"])
    found = run(opening(comp), comp, tmp_path, monkeypatch)
    X = found["X_train" if lacking == "train" else "X_test"]
    assert not X["n0"].isna().any()
    assert 0 < X["n0"].iloc[3] < 19
    assert X["n0"].drop(X.index[3]).tolist() == parts[lacking]["n0"].dropna().tolist()


def test_numbers_that_only_later_rows_lack_are_filled_in(tmp_path, monkeypatch):
    table = pd.DataFrame({"id": range(3000), "a": [float(i) for i in range(3000)], "y": range(3000)})
    table.loc[2000, "a"] = None
    comp = make(tmp_path, table, table.head(5).drop(columns="y"))
    assert not run(opening(comp), comp, tmp_path, monkeypatch)["X_train"].isna().any(axis=None)


def test_a_table_of_categories_is_no_text(tmp_path, monkeypatch):
    table = CATEGORIES[["id", "city", "y"]].assign(kind=["a", "b"] * 20)
    comp = make(tmp_path, table, table.drop(columns="y"))
    found = run(opening(comp), comp, tmp_path, monkeypatch)
    assert sorted(found["X_train"].columns) == ["city_New York", "city_Oslo", "city_Rome", "kind_a", "kind_b"]


@pytest.mark.parametrize("texts", [0, 9])
@pytest.mark.parametrize("group", ["n1", "city", "note"])
def test_the_columns_of_groups_and_of_targets_are_no_features(tmp_path, monkeypatch, group, texts):
    table = CATEGORIES.assign(**{f"t{i}": CATEGORIES["note"] for i in range(texts)}, **{f"m{i}": 1 for i in range(9)})
    comp = replace(make(tmp_path, table, table.assign(y=0)), group_column=group)  # some tables have a column to fill
    names = run(opening(comp), comp, tmp_path, monkeypatch)["X_train"].columns
    assert not [name for name in names if name.startswith((group, "id", "y"))]
    assert {"n0", "n2", "m8"} <= set(names)


def test_json_lines_are_read_as_such(tmp_path, monkeypatch):
    table = pd.DataFrame(TABLE)
    comp = make(tmp_path, table, table.drop(columns="y"), suffix="json")
    for name in ("train", "test"):
        path = comp.public_dir / f"{name}.json"
        pd.read_json(path).to_json(path, orient="records", lines=True)
    assert list(run(opening(comp), comp, tmp_path, monkeypatch)["train"].columns) == list(TABLE)


@pytest.mark.parametrize("name", ['say "hi"', "it's", "back\\slash", "Größe", "a, b", "{x}", "x y", "#", "%s", "```"])
def test_names_are_written_as_they_are(tmp_path, monkeypatch, name):
    table = pd.DataFrame({name: [1, 2], "y": [3, 4], f"{name} 2": ["u v", "w x"]})
    comp = make(tmp_path, table, table.drop(columns="y"), id_column=f"{name} 2")
    found = run(opening(comp), comp, tmp_path, monkeypatch)
    assert list(found["X_train"].columns) == [name]
    assert list(found["submission"].columns) == [f"{name} 2"]


@pytest.mark.parametrize("name", ["a\nimport os", "x" * 500, "\x1b[2J"])
def test_odd_names_are_left_out(tmp_path, name):
    table = pd.DataFrame({"id": [1], name: [1], "y": [3]})
    assert opening(make(tmp_path, table, table.drop(columns="y"))) == "```python\nimport"


def test_without_tables_there_is_only_an_import(tmp_path):
    table = pd.DataFrame(TABLE)
    comp = make(tmp_path, table, table)
    (comp.public_dir / "test.csv").unlink()
    assert opening(comp) == "```python\nimport"


def test_many_columns_and_targets(tmp_path, monkeypatch):
    targets = [f"{{t}}_{i}" for i in range(9)]
    names = ["id", *(f"n{i}" for i in range(50)), *(f"s{i}" for i in range(9))]
    table = pd.DataFrame([["1" if name == "id" else "a b" if name[0] == "s" else 1 for name in names]], columns=names)
    comp = make(tmp_path, table.assign(kind="k"), table, targets=targets)
    found = run(opening(comp), comp, tmp_path, monkeypatch)
    assert len(opening(comp)) < 1200
    assert list(found["X_train"].columns) == [f"n{i}" for i in range(50)]
    assert list(found["targets"]) == targets


def test_prompts_that_begin_the_answer():
    comp = load_competition("wine")
    (asked,) = scratch_prompt(comp)
    begun = scratch_prompt(comp, begin_program=True)
    assert [message["role"] for message in begun] == ["user", "assistant"]
    assert opening_of(begun) == begun[-1]["content"] == opening(comp)
    assert without_opening(begun) == begun[:1]
    assert "plan" in asked["content"].splitlines()[-1]
    assert "plan" not in begun[0]["content"].splitlines()[-1]
    assert opening_of([asked]) == ""
    assert without_opening([asked]) == [asked]
    for failed in (False, True):
        prompt = improve_prompt(comp, "x = 1", "1", Limits(), 1000, lambda prompt: 0, failed, begin_program=True)
        assert opening_of(prompt) == opening(comp)
        assert "plan" not in prompt[0]["content"].splitlines()[-1]
