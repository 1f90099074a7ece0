"""
Runs in a process of its own, which has MLE-bench: answers questions about its competitions, and grades submissions with its
code. Writes a line of JSON to stdout when it is ready, and one for each line that it reads from stdin. It imports nothing of
`trl_mle`.
"""

import contextlib
import copy
import functools
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pandas as pd
from mlebench.grade_helpers import InvalidSubmissionError
from mlebench.registry import registry as default_registry
from mlebench.utils import load_answers, read_csv


@functools.lru_cache(64)
def competition(data_dir: str, name: str) -> Any:
    return default_registry.set_data_dir(Path(data_dir)).get_competition(name)


def describe(data_dir: str, name: str) -> dict[str, Any]:
    """The facts about a competition."""
    found = competition(data_dir, name)
    leaderboard = pd.read_csv(found.leaderboard)
    if "score" not in leaderboard:
        raise ValueError(
            f"{found.leaderboard} has no column 'score'; if it is a Git LFS pointer, get the file with: git lfs pull"
        )
    return {
        "metric": found.grader.name,
        "higher_is_better": not found.grader.is_lower_better(leaderboard),
        "public_dir": str(found.public_dir),
        "sample_submission": str(found.sample_submission),
        "answers": str(found.answers),
    }


@functools.lru_cache(4)
def read_answers(path: Path) -> Any:
    return load_answers(path)


def score_of(found: Any, submission: Path) -> float:
    answers = copy.deepcopy(read_answers(found.answers))  # graders may change them
    return float(found.grader.grade_fn(read_csv(submission), answers))


@functools.lru_cache(64)
def control(data_dir: str, name: str) -> dict[str, Any]:
    """Whether the grader scores a submission that is known to be valid, and how long that takes."""
    found = competition(data_dir, name)
    began, works = time.monotonic(), False
    for known in (found.sample_submission, found.gold_submission):
        with contextlib.suppress(Exception):  # of whatever kind, it is no control
            score_of(found, known)
            works = True
            break
    return {"works": works, "seconds": time.monotonic() - began}


def grade(data_dir: str, name: str, submission: str) -> dict[str, Any]:
    """The score, why the submission is invalid, or why it could not be graded."""
    found = competition(data_dir, name)
    try:
        score = score_of(found, Path(submission))
    except InvalidSubmissionError as error:
        return {"invalid": str(error)}
    except Exception as error:
        # Graders check some things by assertions, or not at all. MLE-bench counts that as invalid, too
        reason = f"{type(error).__name__}: {error}"
        return {"invalid" if control(data_dir, name)["works"] else "failed": reason}
    return {"score": round(score, 5)} if math.isfinite(score) else {"invalid": f"the score is {score}"}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # graders may print
    questions: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            questions.put(json.loads(line))
        os._exit(0)  # the other process ended, perhaps while a submission is graded

    threading.Thread(target=read, daemon=True).start()
    with contextlib.suppress(OSError):  # Linux: where memory ends, this process does, and not the training
        Path("/proc/self/oom_score_adj").write_text("1000")
    known: dict[str, Callable[..., dict[str, Any]]] = {"describe": describe, "control": control, "grade": grade}
    answer: dict[str, Any] = {}  # ready
    while True:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        question = questions.get()
        try:
            answer = known[question.pop("ask")](**question)
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
