"""Grades the submission of a Harbor task, whose `tests/` have a copy of this file and of those that it imports: the
verifier's image needs only pandas and scikit-learn."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from trl_mle.competitions.competition import Competition, Score, invalid
from trl_mle.competitions.metrics import METRICS, find_metric
from trl_mle.execution.inside.submission import read_submission


HOME = Path("/home/user")  # the agent's working directory, with the public files in input/
LOGS = Path("/logs/verifier")  # where Harbor looks for the reward
MAX_MB = 64  # of a submission, as in an executor


class Reward(NamedTuple):
    """The reward of a task, a linear function of the score."""

    zero: float  # the score whose reward is 0
    one: float  # the score whose reward is 1; below `zero` if a smaller score is better
    lowest: float  # reward of a valid submission
    invalid: float  # the reward of an invalid submission, or of none

    def of(self, score: Score) -> float:
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
    """The score of what the agent left in the submission's place, which may be anything."""
    try:
        content = read_submission(submission, MAX_MB)
    except FileNotFoundError:
        return invalid(f"there is no {submission}")
    except ValueError as error:
        return invalid(str(error))
    return competition.grade(content)


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
