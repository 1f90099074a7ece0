"""Packages of other projects."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.packages import tables, write_files, write_package

from trl_mle.competitions import CompetitionError, load_competition
from trl_mle.competitions.importing import find_answers, find_packages, import_package


def import_as_rmse(package, to):
    return import_package(package, to, "rmse")


@pytest.mark.parametrize("layout", ["mle-dojo", "sandmle", "flat"])
def test_its_files_are_sorted(tmp_path, layout):
    package = write_package(
        tmp_path / "prices",
        layout,
        **{
            "{public}/images/a.txt": "an image",
            "{public}/data/b.txt": "b",
            "raw/train.csv": "x\n1\n",
            "../private/answer.csv": "id,price\nr1,2\n",  # of nobody
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


LEAKS = {
    "the file again": lambda train, test, answers: {"solution.csv": answers},
    "without ids": lambda train, test, answers: {"y.csv": answers[["price"]].rename(columns={"price": "p"})},
    "in the test rows": lambda train, test, answers: {"test.csv": test.merge(answers)},
    "under another name there": lambda train, test, answers: {"test.csv": test.assign(z=answers["price"])},
    "with semicolons, in another order": lambda train, test, answers: {
        "key.csv": answers.sort_values("price").to_csv(index=False, sep=";")
    },
    "among lines of text": lambda train, test, answers: {"a.txt": "Answers:\n" + answers[::-1].to_csv(index=False)},
}


@pytest.mark.parametrize("leak", LEAKS)
def test_answers_that_programs_would_see(tmp_path, leak):
    files = LEAKS[leak](*tables("price"))
    package = write_package(
        tmp_path / "prices", "sandmle", **{f"{{public}}/{name}": text for name, text in files.items()}
    )
    with pytest.raises(CompetitionError, match=f"^{next(iter(files))} holds the answers: remove it from the package$"):
        import_as_rmse(package, tmp_path / "out" / "prices")
    assert list((tmp_path / "out").iterdir()) == []


def test_what_is_no_answer(tmp_path):
    """A feature that is nearly the target, a constant, and files of other formats."""
    answers = pd.DataFrame({"id": range(60), "kind": [i % 2 for i in range(60)], "same": 1})
    test = answers[["id"]].assign(x=[1, *answers["kind"][1:]], same=1)
    public = write_files(tmp_path, {"test.csv": test, "notes.csv": "one column\nof texts, and\n", "empty.csv": ""})
    (public / "image.csv").write_bytes(bytes(range(256)))
    assert find_answers(public, answers.astype(str), "id") is None


PRIVATE, SAMPLE = "data/private/test_answer.csv", "{public}/sample_submission.csv"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({PRIVATE: None}, "there are no answers: test_answer.csv or answer.csv or answers.csv"),
        ({PRIVATE: "id\nr1\n"}, "test_answer.csv lacks 'price', which the sample submission has"),
        ({PRIVATE: "id,price\nr1,2\n"}, "test_answer.csv has no column of ids with answers beside it"),
        ({PRIVATE: tables("price")[2].assign(price="x")}, "rmse cannot score price: "),
    ],
)
def test_what_is_missing(tmp_path, files, message):
    package = write_package(tmp_path / "prices", "mle-dojo", **files)
    with pytest.raises(ValueError, match=message) as caught:
        import_as_rmse(package, tmp_path / "out" / "prices")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("out/*"))


def test_links(tmp_path):
    """OpenMLE's packages have one within them; one to the answers is found, and one out of the package is refused."""
    package = write_package(tmp_path / "prices", "mle-dojo")
    (package / "utils" / "public").symlink_to("../data/public")
    (package / "loop").symlink_to("loop")
    import_as_rmse(package, tmp_path / "out" / "fine")
    (package / "data" / "public" / "key.csv").symlink_to("../private/test_answer.csv")
    with pytest.raises(CompetitionError, match=r"^key.csv holds the answers"):
        import_as_rmse(package, tmp_path / "out" / "leaky")
    (package / "data" / "public" / "key.csv").unlink()
    (package / "data" / "public" / "more.csv").symlink_to("/etc/hostname")
    with pytest.raises(CompetitionError, match=f"more.csv is a link out of {package}: put a copy in its place"):
        import_as_rmse(package, tmp_path / "out" / "outside")


def test_a_metric_of_ones_own(tmp_path):
    for layout, metric, takes in (
        ("mle-dojo", "max_error", "numbers"),
        ("openmle", "balanced_accuracy_score", "labels"),
    ):
        package = write_package(tmp_path / takes, layout, **{"{public}/sample_submission.csv": None})
        metric = f"sklearn.metrics.{metric}"
        comp = import_package(package, tmp_path / "out" / takes, metric, higher_is_better=takes == "labels")
        assert (comp.metric, comp.scoring.takes, comp.higher_is_better) == (metric, takes, takes == "labels")
    assert set(pd.read_csv(comp.sample_submission)["kind"]) == {tables("kind")[2]["kind"].mode()[0]}


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
