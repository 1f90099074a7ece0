"""MLE-bench's other competitions, which its own code grades, in a process of its own."""

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from trl_mle.competitions.competition import Competition, CompetitionError, GradingFailed, Score, invalid
from trl_mle.competitions.metrics import Metric, Takes


CONTROL_S = 600.0  # of the start and a submission that is known to be valid
LEAST_S, SLOWER = 60.0, 20.0  # what others may take: seconds, or times as long as that one, but no longer than it may


def bench_folder(competition_id: str) -> Path | None:
    """The folder of a competition in an installed `mlebench`, which is not imported, if any."""
    package = find_spec("mlebench") if re.fullmatch(r"[\w-]+", competition_id) else None
    for location in (package.submodule_search_locations or []) if package else []:
        if (folder := Path(location) / "competitions" / competition_id).is_dir():
            return folder
    return None


@dataclass(frozen=True)
class BenchCompetition(Competition):
    """A competition that MLE-bench's own code grades. All its rows are scored at once: none can be held out."""

    grader = "MLE-bench's own code"
    rule = ""
    grading_s = 4 * CONTROL_S

    def __post_init__(self) -> None:
        if self.holdout:
            raise CompetitionError(f"{self.id!r} is graded by {self.grader}, on all rows: set holdout: 0")

    def grade(self, submission: Path | str | bytes) -> Score:
        """As [`Competition.grade`]. Raises [`GradingFailed`] if the grader does not work, whatever the submission."""
        try:
            content = submission if isinstance(submission, bytes) else Path(submission).read_bytes()
        except OSError as error:
            return invalid(f"the submission cannot be read: {error.strerror}")
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            file.write(content)
            file.flush()
            answer = self._graded(file.name)
        return Score(answer["score"], valid=True) if "score" in answer else invalid(answer["invalid"])

    def _graded(self, submission: str) -> dict[str, Any]:
        # No program can choose to be our failure: it is invalid if the grader, which works on others, fails twice
        for _ in range(2):
            control = self._grader.ask(CONTROL_S, ask="control", name=self.id)
            limit_s = min(max(LEAST_S, SLOWER * control["seconds"]), CONTROL_S)
            try:
                return self._grader.ask(limit_s, ask="grade", name=self.id, submission=submission)
            except GradingFailed as error:
                if not control["works"]:
                    raise
                failure = error
        return {"invalid": f"the grader fails on it: {failure}"}

    def check_answers(self) -> None:
        """Raises [`CompetitionError`] if the grader scores nothing."""
        try:
            works = self._grader.ask(CONTROL_S, ask="control", name=self.id)["works"]
        except GradingFailed as error:
            raise CompetitionError(f"{self.id!r} cannot be graded: {error}") from error
        if not works:
            raise CompetitionError(f"MLE-bench cannot score the right submission of {self.id!r}: prepare it again")

    @property
    def _grader(self) -> "BenchGrader":
        return _grader(str(self.public_dir.parents[2]), os.getpid())


def load_bench(competition_id: str, data_dir: Path) -> BenchCompetition:
    """Loads a competition that `mlebench prepare` has put into `data_dir`. Raises [`CompetitionError`]."""
    try:
        facts = _grader(str(data_dir), os.getpid()).ask(CONTROL_S, ask="describe", name=competition_id)
        sample = pd.read_csv(facts["sample_submission"], nrows=100)
    except (GradingFailed, OSError, ValueError) as error:
        raise CompetitionError(f"{competition_id!r} cannot be loaded by mlebench: {error}") from error
    are_numbers = all(sample[name].dtype.kind in "iuf" for name in sample.columns[1:])
    takes = Takes.NUMBERS if are_numbers else Takes.LABELS
    return BenchCompetition(
        id=competition_id,
        metric=facts["metric"],
        public_dir=Path(facts["public_dir"]),
        sample_submission=Path(facts["sample_submission"]),
        answers=Path(facts["answers"]),
        target_columns=tuple(sample.columns[1:]),
        id_column=sample.columns[0],
        custom_metric=Metric(_not_here, facts["higher_is_better"], takes),
    )


def _not_here(answers: pd.DataFrame, predictions: pd.DataFrame) -> float:
    raise ValueError("only MLE-bench's code computes this metric")


class BenchGrader:
    """A process with MLE-bench, for a folder of prepared data. It starts with the first question."""

    def __init__(self, data_dir: str):
        self._data_dir = data_dir
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def ask(self, limit_s: float, **question: str) -> dict[str, Any]:
        """The answer of `bench_grader.py` to a question. Raises [`GradingFailed`] without one in time."""
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                process = self._process = self._start()
            line = ""
            with contextlib.suppress(BrokenPipeError):  # it ended meanwhile
                print(json.dumps(question | {"limit_s": limit_s, "data_dir": self._data_dir}), file=process.stdin)
                line = process.stdout.readline()  # type: ignore[union-attr]
            if not line.endswith("\n"):
                code = process.wait()
                late = f"did not answer within {limit_s:g} s" if code == -signal.SIGALRM else f"ended with {code}"
                raise GradingFailed(f"mlebench {late}")
        answer = json.loads(line)
        if "failed" in answer:
            raise GradingFailed(" ".join(answer["failed"].split())[:300])
        return answer

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("bench_grader.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            start_new_session=True,
            # What is found here is found there; GPUs are for training
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "CUDA_VISIBLE_DEVICES": ""},
        )


@functools.cache
def _grader(data_dir: str, process_id: int) -> BenchGrader:
    """The process for a folder, one for each of ours: a forked one must not share its pipes."""
    return BenchGrader(data_dir)
