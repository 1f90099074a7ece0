"""The first lines of a program, with which an answer begins."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from trl_mle.competitions import Competition, list_competitions, load_competition
from trl_mle.execution import Limits
from trl_mle.prompts import improve_prompt, opening, opening_of, scratch_prompt, without_opening


NAMES = [name for name in list_competitions() if name.startswith("mirror:")]
NAMES += ["digits", "breast-cancer", "diabetes", "wine"]


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
    if isinstance(X, pd.DataFrame):
        assert list(X.columns) == list(X_test.columns)
        assert not set(X.columns) & {comp.id_column, *comp.target_columns}
        assert all(kind.kind in "iufb" for kind in X.dtypes)
    if len(comp.target_columns) > 1:
        assert list(defined["targets"]) == list(comp.target_columns)


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


@pytest.mark.parametrize("kind", ["csv", "json", "json lines"])
def test_text_is_no_feature_where_there_are_numbers(tmp_path, monkeypatch, kind):
    table = pd.DataFrame(TABLE)
    comp = make(tmp_path, table, table.drop(columns="y"), suffix=kind.removesuffix(" lines"))
    for path in comp.public_dir.glob("*.json") if kind == "json lines" else ():
        pd.read_json(path).to_json(path, orient="records", lines=True)
    assert 'features = ["a"]  # text: text' in opening(comp)
    assert list(run(opening(comp), comp, tmp_path, monkeypatch)["X_train"].columns) == ["a"]


def test_categories_are_kept_beside_any_number_of_texts(tmp_path, monkeypatch):
    numbers = {f"n{i}": range(60) for i in range(6)}
    texts = {f"t{i}": [f"text {i} {row}" for row in range(60)] for i in range(4)}
    table = pd.DataFrame({"id": range(60), **numbers, **texts, "city": ["Oslo", "Rome"] * 30, "y": 1.5})
    comp = make(tmp_path, table.head(40), table.tail(20).drop(columns="y"))
    assert {"n0", "n5", "city_Oslo"} < {*run(opening(comp), comp, tmp_path, monkeypatch)["X_test"].columns}


FORMATS = ["%Y-%m-%d", "%m/%d/%Y", "%d/%m/%y", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%B %d, %Y", "01/%m/%Y"]
OTHERS = ["%H:%M", "%d.%m.%H.%M", "%j-%d-%H%M", "%Y-%j", "n%d-%m-%Y", "%d %B"]


@pytest.mark.parametrize("form", [*FORMATS, *OTHERS])
def test_dates_and_texts_that_repeat_become_numbers(tmp_path, monkeypatch, form):
    dates = pd.Series(pd.date_range("2019-01-05 07:30", periods=300, freq="85h"))
    table = pd.DataFrame({"id": range(300), "a": 0.5, "when": dates.dt.strftime(form), "y": dates.index % 60})
    table = table.assign(city="city " + table["y"].astype(str))
    table.loc[::50, "when"] = "unknown"
    comp = make(tmp_path, table.head(200), table.tail(100).drop(columns="y"))
    found = run(opening(comp), comp, tmp_path, monkeypatch)
    X = pd.concat([found["X_train"], found["X_test"]], ignore_index=True)
    assert not X.isna().any(axis=None)
    assert X["city"].corr(table["y"]) > 0.8
    assert ("when days" in X) == (form in FORMATS)
    assert ("when hour" in X) == (form in FORMATS and "%H" in form)
    read = pd.to_datetime(table["when"], format=form, errors="coerce")
    assert len(opening(comp)) > len(opening(comp, without=["means"])) >= len(opening(comp, without=["means", "dates"]))
    for part in ("month", "day_of_week") if form in FORMATS else ():
        assert X[f"when {part}"][read.notna()].tolist() == getattr(read.dt, part).dropna().tolist()


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


@pytest.mark.parametrize("values", [[1, 0, 0], [1, 1, 0], [1] * 8])
def test_targets_that_say_the_class_become_its_number(tmp_path, monkeypatch, values):
    targets = [*"stuvwxyz"][-len(values) :]
    table = pd.DataFrame([values, [0, 1, *values[2:]]] * 3, columns=targets).assign(id=range(6), a=range(6))
    comp = make(tmp_path, table, table.drop(columns=targets), targets=targets)
    y = run(opening(comp), comp, tmp_path, monkeypatch)["y_train"]
    if values == [1, 0, 0]:
        assert y.tolist() == [0, 1] * 3
        assert "submission[targets] = model.predict_proba(X_test)" in opening(comp)
    else:
        assert y.equals(table[targets].astype(y.dtypes))
        assert "set submission[targets] to its predictions" in opening(comp)


ODD = ['say "hi"', "it's", "back\\slash", "Größe", "a, b", "{x}", "x y", "#", "%s", "```"]
KINDS = {
    "number": lambda rng, rows: rng.normal(size=rows),
    "lacks values": lambda rng, rows: np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
    "category": lambda rng, rows: rng.choice(["Rome", "New York", "Oslo", None], rows),
    "text": lambda rng, rows: [f"word {i}" for i in range(rows)],
    "rare text": lambda rng, rows: [None] * (rows // 2) + ["glued"] * (rows - rows // 2),
    "a word among numbers": lambda rng, rows: [*range(rows // 2), "unknown", *range(rows // 2, rows - 1)],
}  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from([*KINDS]), st.sampled_from(ODD)), max_size=14),
    st.sampled_from([["y"], ["y", "y2"], [f"{{t}}_{i}" for i in range(9)]]),
    st.booleans(),
    st.integers(0, 20),
)
@settings(max_examples=20)
def test_features_are_numbers_of_both_tables_and_no_targets(columns, targets, has_column_to_fill, seed):
    """Whatever else they hold: texts are left out, categories become indicators, and gaps are filled."""
    rng, rows = np.random.default_rng(seed), 300
    kinds = {"n0": "number", "n1": "number"} | {f"{name} {i}": kind for i, (kind, name) in enumerate(columns)}
    group = [*kinds][2] if columns and seed % 2 else None
    table = pd.DataFrame({"id": range(rows)} | {name: KINDS[kind](rng, rows) for name, kind in kinds.items()})
    table = table.join(pd.DataFrame(rng.random((rows, len(targets))), columns=targets))
    test = table.tail(100) if has_column_to_fill else table.tail(100).drop(columns=targets)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        comp = replace(make(Path(folder), table.head(200), test, targets), group_column=group)
        found = run(opening(comp), comp, Path(folder), patch)
        assert len(opening(comp)) < 1500
        patch.undo()  # the folder is no longer the current one
    numbers = [name for name, kind in kinds.items() if kind in ("number", "lacks values") and name != group]
    texts = tuple(f"{name}_" for name in kinds if name not in (*numbers, group))
    for X, part in (found["X_train"], table.head(200)), (found["X_test"], table.tail(100)):
        assert [name for name in X.columns if not name.startswith(texts)] == numbers
        assert all(kind.kind in "iufb" for kind in X.dtypes)
        assert not X.isna().any(axis=None)
        assert np.allclose(X[numbers].where(part[numbers].notna().to_numpy()), part[numbers], equal_nan=True)
    assert list(found["X_train"].columns) == list(found["X_test"].columns)
    if len(kinds) <= 6 and (
        city := next((name for name, kind in kinds.items() if kind == "category" and name != group), None)
    ):
        assert found["X_train"][f"{city}_Rome"].tolist() == (table[city].head(200) == "Rome").tolist()
    assert len(targets) == 1 or list(found["targets"]) == targets


@pytest.mark.parametrize("name", ["a\nimport os", "x" * 500])
def test_with_odd_names_or_without_tables_there_is_only_an_import(tmp_path, name):
    table = pd.DataFrame({"id": [1], name: [1], "y": [3]})
    comp = make(tmp_path, table, table.drop(columns="y"))
    assert opening(comp) == "```python\nimport"
    (comp.public_dir / "test.csv").unlink()  # so does a folder without its tables
    assert opening(comp) == "```python\nimport"


def test_prompts_that_begin_the_answer():
    comp = load_competition("wine")
    asked = scratch_prompt(comp)
    begun = scratch_prompt(comp, begin_program=True)
    for prompt in (
        begun,
        improve_prompt(comp, "x = 1", "1", Limits(), 1000, lambda prompt: 0, begin_program=True),
        improve_prompt(comp, "x = 1", "1", Limits(), 1000, lambda prompt: 0, failed=True, begin_program=True),
    ):
        assert opening_of(prompt) == prompt[-1]["content"] == opening(comp)
        assert "plan" not in prompt[0]["content"].splitlines()[-1]
    assert without_opening(begun) == begun[:1]
    assert "plan" in asked[0]["content"].splitlines()[-1]
    assert (opening_of(asked), without_opening(asked)) == ("", asked)
