import shutil
import sys
from dataclasses import replace

import pytest

from trl_mle.competitions import load_competition
from trl_mle.competitions.content import content_digest
from trl_mle.competitions.metrics import METRICS, find_metric


@pytest.fixture
def moved(tmp_path):
    """The same competition under another name, in another folder."""
    wine = load_competition("wine")
    root = shutil.copytree(wine.public_dir.parent, tmp_path / "elsewhere")
    places = {name: getattr(wine, name) for name in ("public_dir", "sample_submission", "answers")}
    moved = {name: root / path.relative_to(wine.public_dir.parent) for name, path in places.items()}
    return replace(wine, id="vino", **moved)


def test_neither_name_nor_place_matters(moved):
    assert content_digest(moved) == content_digest(load_competition("wine"))


def test_content_and_grading_matter(moved):
    digest = content_digest.__wrapped__  # without its cache
    digests = [digest(moved)]
    moved.answers.write_text(moved.answers.read_text() + "\n")
    digests.append(digest(moved))
    (moved.public_dir / "train.csv").write_text("id\n")
    digests.append(digest(moved))
    (moved.public_dir / "more.txt").touch()
    digests.append(digest(moved))
    digests += [digest(replace(moved, id_first=True)), digest(replace(moved, custom_metric=METRICS[moved.metric]))]
    assert len(set(digests)) == len(digests)


def test_an_edited_metric_is_another(moved, tmp_path, monkeypatch):
    """Also where what it calls was edited, in its own file."""
    monkeypatch.syspath_prepend(tmp_path)
    digests = []
    for number in (1, 2, 2):
        (tmp_path / "edited.py").write_text(f"def helper(): return {number}\ndef cost(y, p): return helper()\n")
        sys.modules.pop("edited", None)
        metric = find_metric("edited.cost", higher_is_better=False)
        digests.append(
            content_digest(replace(moved, id=str(len(digests)), metric="edited.cost", custom_metric=metric))
        )
    assert digests[0] != digests[1] == digests[2]
