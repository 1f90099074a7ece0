"""
Grades the submission of a Harbor task. [`~trl_mle.environments.harbor.export_harbor`] copies this file, and those of ours that
it imports, into the task's `tests/`, beside the answers: the verifier's image needs nothing but pandas and scikit-learn.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from trl_mle.competitions.competition import Competition, Score
from trl_mle.competitions.metrics import METRICS, find_metric


HOME = Path("/home/user")  # the agent's working directory, with the public files in input/
LOGS = Path("/logs/verifier")  # where Harbor looks for the reward
MAX_MB = 64  # of a submission, as in an executor


class Reward(NamedTuple):
    """
    The reward of a task, a linear function of the score.

    Args:
        zero (`float`):
            The score whose reward is 0.
        one (`float`):
            The score whose reward is 1; below `zero` if a smaller score is better.
        lowest (`float`):
            The least reward of a valid submission.
        invalid (`float`):
            The reward of an invalid submission, or of none.
    """

    zero: float
    one: float
    lowest: float
    invalid: float

    def of(self, score: Score) -> float:
        """The reward of a score."""
        if score.value is None:
            return self.invalid
        return max((score.value - self.zero) / (self.one - self.zero) + 0.0, self.lowest)  # no -0.0


def load(tests: Path) -> tuple[Competition, Reward]:
    """The competition and the reward that `competition.json` describes, with the answers beside it."""
    task: dict[str, Any] = json.loads((tests / "competition.json").read_text(encoding="utf-8"))
    facts, metric = task["competition"], task["competition"]["metric"]
    competition = Competition(
        **facts | {key: tuple(facts[key]) for key in ("target_columns", "text_columns")},
        public_dir=HOME / "input",
        sample_submission=HOME / "input" / task["sample_submission"],
        answers=tests / task["answers"],
        custom_metric=None if metric in METRICS else find_metric(metric, **task["metric_options"]),
    )
    return competition, Reward(**task["reward"])


def grade(competition: Competition, submission: Path) -> Score:
    """The score of a file that the agent may have replaced by a link to the answers, a device or a pipe."""
    try:
        fd = os.open(submission, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return Score(None, valid=False, error=f"there is no {submission}")
    except OSError as error:
        return Score(None, valid=False, error=f"{submission} cannot be opened: {error.strerror}")
    with open(fd, "rb") as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
            return Score(None, valid=False, error=f"{submission} is not a regular file")
        if info.st_size > MAX_MB << 20:
            return Score(None, valid=False, error=f"{submission} is larger than {MAX_MB} MB")
        return competition.grade(file.read())


def main(tests: Path, submission: Path = HOME / "submission.csv", logs: Path = LOGS) -> None:
    """Writes the reward, which Harbor reads, and the score, for people."""
    competition, reward = load(tests)
    score = grade(competition, submission)
    result = {"reward": reward.of(score), "valid": score.valid, "score": score.value, "error": score.error}
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "score.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    (logs / "reward.txt").write_text(f"{result['reward']}\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main(Path.cwd())
