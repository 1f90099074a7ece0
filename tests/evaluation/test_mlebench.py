import json
import shutil

import pytest

from trl_mle.competitions import CompetitionError, load_competition
from trl_mle.evaluation.mlebench import check_gradable, write_submissions
from trl_mle.rewards import BestSolutions


@pytest.fixture
def prepared(tmp_path):
    """Two of MLE-bench's competitions, with the files of mirrors."""
    names = ("spooky-author-identification", "random-acts-of-pizza")
    for name in names:
        mirror = load_competition(f"mirror:{name}?rows=60").public_dir.parent
        shutil.copytree(mirror, tmp_path / "data" / name / "prepared")
    return [load_competition(name, tmp_path / "data") for name in names]


def test_submissions_as_mlebench_takes_them(prepared, tmp_path):
    spooky, _ = prepared
    submission = spooky.sample_submission.read_bytes()
    BestSolutions(tmp_path / "best").offer(spooky, "x = 1", submission, spooky.grade(submission).value)
    for _ in range(2):  # writing again replaces
        path = write_submissions(tmp_path / "best", prepared, tmp_path / "out")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["competition_id"] for row in rows] == [competition.id for competition in prepared]
    assert [set(row) for row in rows] == [{"competition_id", "submission_path"}] * 2
    with open(rows[0]["submission_path"], "rb") as file:
        assert file.read() == submission
    assert rows[1]["submission_path"].endswith("random-acts-of-pizza/submission.csv")
    assert not (tmp_path / "out" / "random-acts-of-pizza").exists()  # MLE-bench counts that as no submission


def test_what_mlebench_does_not_know_is_refused(prepared):
    check_gradable(prepared)
    with pytest.raises(
        CompetitionError, match="--mlebench_out: MLE-bench cannot grade wine; it knows detecting-insults"
    ):
        check_gradable([*prepared, load_competition("wine")])
