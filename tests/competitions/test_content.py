import shutil
from dataclasses import replace

import pytest

from trl_mle.competitions import load_competition
from trl_mle.competitions.content import content_digest
from trl_mle.competitions.metrics import METRICS


@pytest.fixture
def moved(tmp_path):
    """The same competition under another name, in another folder."""
    wine = load_competition("wine")
    root = shutil.copytree(wine.public_dir.parent, tmp_path / "elsewhere")

    def there(path):
        return root / path.relative_to(wine.public_dir.parent)

    return replace(
        wine,
        id="vino",
        public_dir=there(wine.public_dir),
        sample_submission=there(wine.sample_submission),
        answers=there(wine.answers),
    )


def test_neither_name_nor_place_matters(moved):
    assert content_digest(moved) == content_digest(load_competition("wine"))


def double(answers, predictions):
    return 2.0


@pytest.mark.parametrize("change", ["answers", "public", "new file", "field", "custom metric"])
def test_content_and_grading_matter(moved, change):
    if change == "answers":
        moved.answers.write_text(moved.answers.read_text() + "\n")
    elif change == "public":
        (moved.public_dir / "train.csv").write_text("id\n")
    elif change == "new file":
        (moved.public_dir / "more.txt").touch()
    elif change == "field":
        moved = replace(moved, id_first=True)
    else:
        moved = replace(moved, custom_metric=METRICS[moved.metric]._replace(score=double))
    assert content_digest(moved) != content_digest(load_competition("wine"))


BODIES = {
    "a constant in a generator": ["return sum(1 + 4 * a for a in y)", "return sum(1 + 9 * a for a in y)"],
    "a method in a function": ["return (lambda row: row.pow(2))(y)", "return (lambda row: row.abs(2))(y)"],
    "labels in a set": ["return y in {'a', 'b'}", "return y in {'a', 'c'}"],
    "a default": ["return weight", "return weight"],
    "another function": ["return helper(y)", "return helper(y)"],
}


@pytest.mark.parametrize("what", BODIES)
def test_an_edited_metric_is_another(moved, tmp_path, what):
    digests = []
    for number, body in enumerate(BODIES[what]):
        file = tmp_path / str(number) / "my_metric.py"
        file.parent.mkdir()
        weight = number if what == "a default" else 0
        file.write_text(f"def helper(y):\n    return {number}\n" if what == "another function" else "")
        defined = {"__name__": "my_metric"}
        code = file.read_text() + f"def cost(y, p, weight={weight}):\n    {body}\n"
        exec(compile(code, str(file), "exec"), defined)  # ours
        changed = replace(moved, custom_metric=METRICS[moved.metric]._replace(score=defined["cost"]))
        assert content_digest(changed) == content_digest(replace(changed, id="again"))
        digests.append(content_digest(changed))
    assert len(set(digests)) == len(digests)
