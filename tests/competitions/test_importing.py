"""Packages of other projects, as far as files go; tests/scripts/test_import_packages.py runs their metrics."""

import csv
import gzip
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support.packages import tables, write_files, write_package

from trl_mle.competitions import CompetitionError, importing, load_competition
from trl_mle.competitions.importing import find_packages, import_package
from trl_mle.competitions.leaks import equals_answers, find_leak
from trl_mle.competitions.own import write_config


def unused(files):
    raise AssertionError("a metric was given")


def import_as_rmse(package, to):
    return import_package(package, to, unused, metric="rmse").competition


@pytest.mark.parametrize("layout", ["mle-dojo", "sandmle", "flat"])
def test_its_files_are_sorted(tmp_path, layout):
    package = write_package(
        tmp_path / "prices",
        layout,
        **{
            "{public}/images/a.txt": "an image",
            "{public}/data/b.txt": "b",
            "raw/train.csv": "x\n1\n",
            "{public}/.git/objects/pack": "the answers, packed",
            "{public}/images/.DS_Store": "their names",
            "{public}/__pycache__/metric.cpython-311.pyc": "the metric, compiled",
        },
    )
    comp = import_as_rmse(package, tmp_path / "out")
    assert comp == load_competition(str(tmp_path / "out"))
    assert comp.id == "prices"
    train, _, answers = tables("price")
    seen = {path.relative_to(comp.public_dir).as_posix() for path in comp.public_dir.rglob("*") if path.is_file()}
    assert seen == {"train.csv", "test.csv", "sample_submission.csv", "description.md", "images/a.txt"} | (
        {"data/b.txt"} if layout != "flat" else set()
    )
    assert pd.read_csv(comp.public_dir / "train.csv").equals(train.reset_index(drop=True))
    assert "Predict price" in comp.description
    assert comp.grade(answers.to_csv(index=False).encode()).value == 0
    assert comp.grade(comp.sample_submission).valid
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"competition.yaml", "public", "private"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_sample_submission_is_made_where_it_lacks_or_tells(tmp_path):
    _, _, answers = tables("price")
    for name, sample in (("none", None), ("right", answers), ("empty", answers.assign(price=np.nan))):
        package = write_package(tmp_path / name, "mle-dojo", **{"{public}/sample_submission.csv": sample})
        comp = import_as_rmse(package, tmp_path / "out" / name)
        made = pd.read_csv(comp.sample_submission)
        assert list(made.columns) == ["id", "price"]
        assert list(made["id"]) == list(answers["id"])
        assert made["price"].nunique() == 1
        assert made["price"].iloc[0] == pytest.approx(answers["price"].mean(), rel=1e-4)


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes")])
def test_a_sample_submission_that_tells_a_rare_label(tmp_path, labels):
    """A constant guess is right in 99 of 100 rows, but in none with the rare label."""
    common, rare = labels
    guess = pd.DataFrame({"id": range(100), "kind": common})
    answers = guess.assign(kind=[rare] + 99 * [common])
    assert not equals_answers(guess, answers, "id")
    assert not equals_answers(guess, guess, "id")  # there is nothing to tell
    files = dict.fromkeys(("data/private/test_answer.csv", "{public}/sample_submission.csv"), answers[::-1])
    package = write_package(tmp_path / "kinds", "openmle", **files)
    comp = import_package(package, tmp_path / "out", unused, metric="accuracy").competition
    assert set(pd.read_csv(comp.sample_submission)["kind"]) == {common}


def test_carriage_returns_in_answers(tmp_path):
    _, _, answers = tables("price")
    noted = answers.assign(note="a\rb").to_csv(index=False, quoting=csv.QUOTE_ALL)
    package = write_package(tmp_path / "prices", "mle-dojo", **{"data/private/test_answer.csv": noted})
    assert len(pd.read_csv(import_as_rmse(package, tmp_path / "out").answers)) == len(answers)


def without_ids(table):
    return table.drop(columns="id")


LEAKS = {
    "the file again": lambda train, test, answers: {"solution.csv": answers},
    "without ids": lambda train, test, answers: {"y.csv": without_ids(answers).rename(columns={"price": "p"})},
    "in the test rows": lambda train, test, answers: {"test.csv": test.merge(answers)},
    "under another name there": lambda train, test, answers: {"test.csv": test.assign(z=answers["price"])},
    "as ranks": lambda train, test, answers: {"ranks.csv": answers.assign(price=answers["price"].rank())},
    "among more rows": lambda train, test, answers: {"all.csv": pd.concat([train, test.merge(answers)])},
    "as JSON": lambda train, test, answers: {"a.json": json.dumps(dict(answers.to_numpy().tolist()))},
    "as JSON lines": lambda train, test, answers: {"a.jsonl": answers.to_json(orient="records", lines=True)},
    "as text": lambda train, test, answers: {"notes.txt": answers.to_string(index=False)},
    "with semicolons": lambda train, test, answers: {"key.csv": answers.to_csv(index=False, sep=";")},
    "with semicolons and features": lambda train, test, answers: {
        "all.csv": test.merge(answers).sort_values("x").to_csv(index=False, sep=";", decimal=",")
    },
    "as JSON by id": lambda train, test, answers: {
        "a.json": answers.sort_values("price").set_index("id").to_json(orient="index")
    },
    "as columns of JSON by id": lambda train, test, answers: {
        "a.json": answers.assign(year=1990).sort_values("price").set_index("id").to_json()
    },
    "in a part of JSON": lambda train, test, answers: {
        "a.json": json.dumps({"info": {"year": 1990}, "notes": [], "rows": answers[::-1].to_dict("records")})
    },
    "in a folder": lambda train, test, answers: {"old/answer_key.tsv": answers.to_csv(index=False, sep="\t")},
}


@pytest.mark.parametrize("leak", LEAKS)
def test_answers_that_programs_would_see(tmp_path, leak):
    files = LEAKS[leak](*tables("price"))
    package = write_package(
        tmp_path / "prices", "sandmle", **{f"{{public}}/{name}": text for name, text in files.items()}
    )
    with pytest.raises(
        CompetitionError, match=f"^{next(iter(files))} holds the answers.*: remove it from the package$"
    ):
        import_as_rmse(package, tmp_path / "out" / "prices")
    assert list((tmp_path / "out").iterdir()) == []


def test_answers_in_other_formats(tmp_path):
    _, _, answers = tables("price")
    for name, write in (
        ("a.parquet", answers.to_parquet),
        ("a.npy", lambda path: np.save(path, answers["price"].to_numpy())),
        ("a.csv.gz", lambda path: answers.to_csv(path, index=False)),
        (
            "a.zip",
            lambda path: answers.to_csv(path, index=False, compression={"method": "zip", "archive_name": "x.csv"}),
        ),
    ):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        write(folder / name)
        assert f"{name} holds the answers" in (find_leak(folder, answers, "id") or ""), name


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("latin-1.csv", lambda table, path: table.assign(city="Zürich").to_csv(path, index=False, encoding="latin-1")),
        ("packed.csv.bz2", lambda table, path: table.to_csv(path, index=False)),
        ("packed.json.gz", lambda table, path: table.to_json(path, orient="records")),
        ("float.npy", lambda table, path: np.save(path, table.to_numpy(float))),
        ("float.parquet", lambda table, path: table.astype(float).to_parquet(path)),
        ("without_some_ids.csv", lambda table, path: table.reindex(range(-2, 40)).to_csv(path, index=False)),
    ],
)
def test_answers_by_numbers_in_another_form(tmp_path, name, write):
    answers = tables("price")[2].assign(id=range(1000, 1040))[["id", "price"]].reset_index(drop=True)
    write(answers[::-1], tmp_path / name)
    assert (find_leak(tmp_path, answers, "id") or "").startswith(f"{name} holds the answers: its column")


def test_files_that_cannot_be_read_are_no_tables(tmp_path):
    _, _, answers = tables("price")
    content = answers.to_csv(index=False).encode()
    archives = {}
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
            archive.writestr("x.csv", content * 40)
        archives[method] = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").unlink()
    deflated, packed = archives.values()
    encrypted, unknown = bytearray(deflated), bytearray(deflated)
    entry = deflated.find(b"PK\1\2")
    encrypted[6] = encrypted[entry + 8] = 1
    unknown[8] = unknown[entry + 10] = 99
    odd = {
        "lists.json": json.dumps([{"id": name, "boxes": [1, number]} for number, name in enumerate(answers["id"])]),
        "lists.jsonl": "\n".join(json.dumps({"id": name, "boxes": {"x": 1}}) for name in answers["id"]),
        "deep.json": "[" * 100_000,
        "broken.csv.gz": gzip.compress(content)[:40] + b"\xff" * 40,
        "deflated.zip": deflated[:60] + b"\xff" * 30 + deflated[90:],
        "lzma.zip": packed[:50] + b"\xff" * 40 + packed[90:],
        "encrypted.zip": encrypted,
        "unknown.zip": unknown,
        "broken.parquet": b"PAR1" + bytes(100),
    }
    for name, what in odd.items():
        (tmp_path / name).write_bytes(what.encode() if isinstance(what, str) else what)
    assert find_leak(tmp_path, answers, "id") is None
    pd.DataFrame({"id": answers["id"], "at": [[1, 2]] * len(answers), "y": answers["price"]}).to_parquet(
        tmp_path / "z.parquet"
    )
    assert find_leak(tmp_path, answers, "id").startswith("z.parquet holds the answers: its column 'y'")


def test_labels_in_place_of_one_hot_answers(tmp_path):
    labels = pd.Series(np.random.RandomState(0).choice(["a", "b", "c"], 60), name="kind")
    answers = pd.get_dummies(labels, prefix="kind", dtype=int)
    answers.insert(0, "id", range(60))
    test = pd.DataFrame({"id": range(60), "x": np.arange(60) % 7})
    train = pd.DataFrame({"id": range(60, 100), "x": 1, "kind": "a"})
    for name, leaky in (("plain", labels), ("coded", pd.factorize(labels)[0])):
        folder = write_files(tmp_path / name, {"train.csv": train, "test.csv": test.assign(kind=leaky)})
        assert "test.csv holds the answers: its column 'kind'" in (find_leak(folder, answers, "id") or "")
    assert find_leak(write_files(tmp_path / "fine", {"train.csv": train, "test.csv": test}), answers, "id") is None


def test_one_hot_answers_with_rare_labels(tmp_path):
    """Nearly all rows of each column hold 0."""
    labels = np.random.RandomState(0).permutation(np.arange(360) % 90)
    answers = pd.DataFrame(np.eye(90, dtype=int)[labels], columns=[f"kind_{i}" for i in range(90)])
    answers.insert(0, "id", range(360))
    public = write_files(tmp_path, {"test.csv": pd.DataFrame({"id": range(360), "x": np.arange(360) % 7})})
    assert find_leak(public, answers, "id") is None
    write_files(tmp_path, {"backup.csv": answers.sample(frac=1, random_state=1)})
    assert "backup.csv holds the answers: its column 'kind_0'" in find_leak(public, answers, "id")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("notes.txt", lambda text, path: path.write_text(text.replace(",", "\t"))),
        ("notes.dat.gz", lambda text, path: path.write_bytes(gzip.compress(text.encode()))),
    ],
)
def test_labels_of_several_words_in_lines_of_text(tmp_path, name, write):
    answers = pd.DataFrame({"id": range(60), "town": ["New York", "San José"] * 30})
    (tmp_path / "false.gz").write_text("not compressed")
    assert find_leak(tmp_path, answers, "id") is None
    write("once,this\n" + answers.to_csv(index=False), tmp_path / name)
    assert find_leak(tmp_path, answers, "id") == f"{name} holds the answers, as lines of text"


@pytest.mark.parametrize("rows", [50, 80])
def test_a_feature_that_determines_the_target_in_both_tables(tmp_path, rows):
    """Whether or not the training data have as many rows as the test data."""
    smells = np.random.RandomState(0).choice(list("abcdef"), 50 + rows)
    table = pd.DataFrame(
        {"id": range(50 + rows), "smell": smells, "edible": [int(smell in "abc") for smell in smells]}
    )
    files = {"train.csv": table[50:], "test.csv": table[:50].drop(columns="edible")}
    assert find_leak(write_files(tmp_path, files), table[:50][["id", "edible"]], "id") is None


FORMS = {
    "csv": lambda table: table,
    "semicolons": lambda table: table.to_csv(index=False, sep=";", decimal=","),
    "rows": lambda table: table.to_json(orient="records"),
    "keys": lambda table: table.set_index("id").to_json(orient="index"),
    "columns": lambda table: table.to_json(),
    "lists": lambda table: json.dumps(table.to_dict("list")),
    "parts": lambda table: json.dumps({"info": {"rows": len(table)}, "rows": table.to_dict("records")}),
}


@pytest.mark.parametrize("form", FORMS)
def test_features_that_predict_well_are_no_answers(tmp_path, form):
    rng = np.random.RandomState(0)
    train = pd.DataFrame({"id": range(100), "x": rng.normal(size=100)})
    train["y"] = (train["x"] > 0).astype(int)
    test = train[60:].drop(columns="y")
    suffix = "csv" if form in ("csv", "semicolons") else "json"
    seen = {"train": train[:60], "test": test, "sizes": test[["id"]].assign(size=rng.normal(size=40))}
    files = {f"{name}.{suffix}": FORMS[form](table) for name, table in seen.items()}
    assert find_leak(write_files(tmp_path / "public", files), train[60:][["id", "y"]], "id") is None


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"data/private/test_answer.csv": None}, "there are no answers: test_answer.csv or answer.csv or answers.csv"),
        ({"{public}/description.txt": None}, "there is no description.txt or description.md"),
        (
            {"data/private/test_answer.csv": "id\nr1\n"},
            "test_answer.csv lacks 'price', which the sample submission has",
        ),
        (
            {"data/private/test_answer.csv": "id,price\nr1,2\n"},
            "test_answer.csv has 1 rows, and the sample submission 40",
        ),
        (
            {"data/private/test_answer.csv": "", "{public}/sample_submission.csv": None},
            "test_answer.csv cannot be read",
        ),
        (
            {"data/private/test_answer.csv": "a,b\n1,2\n1,2\n", "{public}/sample_submission.csv": None},
            "no column of ids",
        ),
        ({"data/private/test_answer.csv": tables("price")[2].assign(price="x")}, "rmse cannot score price: "),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_what_is_missing(tmp_path, files, message):
    package = write_package(tmp_path / "prices", "mle-dojo", **files)
    with pytest.raises(CompetitionError, match=message) as caught:
        import_as_rmse(package, tmp_path / "out" / "prices")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("out/*"))


def test_without_a_metric(tmp_path):
    package = write_package(tmp_path / "prices", "mle-dojo", **{"utils/metric.py": None})
    with pytest.raises(CompetitionError, match=r"there is no metric.py or evaluator.py: name a metric with --metric"):
        import_package(package, tmp_path / "out", unused)


def test_the_metric_of_an_installed_mle_dojo(tmp_path, monkeypatch):
    """Prepared data of MLE-Dojo have no metric. Its package is not imported."""
    package = write_package(tmp_path / "prices", "mle-dojo", **{"utils/metric.py": None})
    write_files(
        tmp_path / "site" / "mledojo",
        {"__init__.py": "raise RuntimeError", "competitions/prices/utils/metric.py": "# its metric"},
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    asked = []

    def run(files):
        asked.append(files["package/metric.py"].read_text())
        return b"nothing"

    with pytest.raises(CompetitionError, match=r"metric.py broke off: it wrote no scores"):
        import_package(package, tmp_path / "out", run)
    assert asked == ["# its metric"]


@pytest.mark.parametrize("name", ["data/public/more.csv", "data/public/description.txt", "utils/metric.py", "raw"])
def test_links_are_refused(tmp_path, name):
    package = write_package(tmp_path / "prices", "mle-dojo")
    (package / name).unlink(missing_ok=True)
    (package / name).symlink_to("/etc/hostname")
    with pytest.raises(CompetitionError, match=f"{name} is a link out of {package}: put a copy in its place"):
        import_as_rmse(package, tmp_path / "out")


def test_links_inside_a_package(tmp_path):
    """OpenMLE's packages have one; one to the answers is found."""
    package = write_package(tmp_path / "prices", "mle-dojo")
    (package / "utils" / "public").symlink_to("../data/public")
    import_as_rmse(package, tmp_path / "out" / "fine")
    (package / "data" / "public" / "key.csv").symlink_to("../private/test_answer.csv")
    with pytest.raises(CompetitionError, match=r"^key.csv holds the answers"):
        import_as_rmse(package, tmp_path / "out" / "leaky")


def test_links_to_folders(tmp_path):
    """Their files would be missing. Elsewhere than among the public files, nothing is taken from them."""
    package = write_package(tmp_path / "prices", "flat", **{"raw/images/a.txt": "an image"})
    (package / "images").symlink_to("raw/images")
    with pytest.raises(CompetitionError, match=r"prices/images is a link to a folder: copy the package with cp -rL$"):
        import_as_rmse(package, tmp_path / "out")
    (package / "images").rename(package / "utils")
    assert import_as_rmse(package, tmp_path / "out").id == "prices"


def test_answers_under_another_name(tmp_path):
    _, _, answers = tables("price")
    other = answers.rename(columns={"price": "true price"})
    package = write_package(tmp_path / "prices", "mle-dojo", **{"data/private/test_answer.csv": other})
    comp = import_as_rmse(package, tmp_path / "out")
    assert comp.target_columns == ("price",)
    assert comp.grade(answers.to_csv(index=False).encode()).value == 0


def test_a_metric_of_ones_own(tmp_path):
    package = write_package(tmp_path / "prices", "mle-dojo")
    import_package(package, tmp_path / "out", unused, metric="sklearn.metrics.max_error", higher_is_better=False)
    assert yaml.safe_load((tmp_path / "out" / "competition.yaml").read_text()) == {
        "id": "prices",
        "metric": "sklearn.metrics.max_error",
        "id_column": "id",
        "target_columns": ["price"],
        "higher_is_better": False,
        "takes": "numbers",
    }


def test_a_metric_of_ones_own_for_labels(tmp_path):
    package = write_package(tmp_path / "kinds", "openmle", **{"{public}/sample_submission.csv": None})
    metric = "sklearn.metrics.balanced_accuracy_score"
    comp = import_package(package, tmp_path / "out", unused, metric=metric, higher_is_better=True).competition
    assert comp.rule == "Predictions are labels as in the training data."
    assert set(pd.read_csv(comp.sample_submission)["kind"]) == {tables("kind")[2]["kind"].mode()[0]}


def test_links_that_lead_nowhere(tmp_path):
    package = write_package(tmp_path / "prices", "mle-dojo")
    for name in ("loop", "data/public/loop", "data/public/gone"):
        (package / name).symlink_to("nothing" if name.endswith("gone") else "loop")
    assert import_as_rmse(package, tmp_path / "out").id == "prices"


def test_two_imports_at_a_time(tmp_path, monkeypatch):
    package = write_package(tmp_path / "prices", "mle-dojo")

    def write_second(*args):
        write_files(tmp_path / "out", {"competition.yaml": "the first"})
        return write_config(*args)

    monkeypatch.setattr(importing, "write_config", write_second)
    with pytest.raises(CompetitionError, match="out exists: remove it to import the package again"):
        import_as_rmse(package, tmp_path / "out")
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["the first"]


def test_the_package_in_the_current_folder(tmp_path, monkeypatch):
    package = write_package(tmp_path / "prices", "mle-dojo")
    (package / "data/public/description.txt").rename(package / "prices.txt")
    monkeypatch.chdir(package)
    [found] = find_packages(Path("."))
    assert import_as_rmse(found, tmp_path / "out").id == "prices"


def test_where_packages_lie(tmp_path):
    for name, layout in (("b", "openmle"), ("a", "sandmle"), ("c", "flat")):
        write_package(tmp_path / "all" / name, layout)
        assert find_packages(tmp_path / "all" / name) == [tmp_path / "all" / name]
    (tmp_path / "all" / ".git").mkdir()
    assert [path.name for path in find_packages(tmp_path / "all")] == ["a", "b", "c"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(CompetitionError, match="is not a package, and holds none"):
        find_packages(tmp_path / "empty")
