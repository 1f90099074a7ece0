"""
Runs in a process of its own, which has MLE-bench: for each question, a line of JSON, it writes one to stdout. It
imports nothing of `trl_mle`.
"""

import contextlib
import functools
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


@functools.lru_cache(64)
def competition(data_dir: str, name: str) -> Any:
    from mlebench.registry import registry  # here, so that what fails is an answer

    return registry.set_data_dir(Path(data_dir)).get_competition(name)


def describe(data_dir: str, name: str) -> dict[str, Any]:
    import pandas as pd

    comp = competition(data_dir, name)
    return {
        "metric": comp.grader.name,
        "higher_is_better": not comp.grader.is_lower_better(pd.read_csv(comp.leaderboard)),
        "public_dir": str(comp.public_dir),
        "sample_submission": str(comp.sample_submission),
        "answers": str(comp.answers),
    }


def score_of(comp: Any, submission: Path) -> float:
    from mlebench.utils import load_answers, read_csv

    return float(comp.grader.grade_fn(read_csv(submission), load_answers(comp.answers)))


@functools.lru_cache(64)
def control(data_dir: str, name: str) -> dict[str, Any]:
    """Whether the grader scores a submission that is known to be valid, and how long that takes."""
    comp = competition(data_dir, name)
    began = time.monotonic()
    for submission in (comp.sample_submission, comp.gold_submission):
        with contextlib.suppress(Exception):  # of whatever kind, it is no control
            score_of(comp, submission)
            return {"works": True, "seconds": time.monotonic() - began}
    return {"works": False, "seconds": 0.0}


def grade(data_dir: str, name: str, submission: str) -> dict[str, Any]:
    """The score, or why the submission is invalid, or the grader failed."""
    from mlebench.grade_helpers import InvalidSubmissionError

    try:
        score = score_of(competition(data_dir, name), Path(submission))
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
    with contextlib.suppress(OSError):  # where memory ends, this process does, and not the training
        Path("/proc/self/oom_score_adj").write_text("1000")
    functions: dict[str, Callable[..., dict[str, Any]]] = {"describe": describe, "control": control, "grade": grade}
    for line in sys.stdin:
        question = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, question.pop("limit_s"))  # ends this process
        try:
            answer = functions[question.pop("ask")](**question)
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
