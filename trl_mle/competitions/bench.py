"""MLE-bench's other competitions, which its own code grades, in a process of its own."""

import atexit
import contextlib
import functools
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from trl_mle.competitions.competition import (
    Competition,
    CompetitionError,
    GradingFailed,
    Score,
    check_width,
    invalid,
)
from trl_mle.competitions.metrics import Metric


START_S = 300.0  # MLE-bench imports large packages
CONTROL_S = 300.0  # of a submission that is known to be valid
# What others may take: so many seconds, or so many times as long as that one, but no longer than this
LEAST_S, SLOWER, MOST_S = 60.0, 20.0, 600.0
PROGRAM = Path(__file__).with_name("bench_grader.py")


def bench_folder(competition_id: str) -> Path | None:
    """The folder of a competition in an installed `mlebench`, which is found, not imported; `None` if there is none."""
    package = find_spec("mlebench") if re.fullmatch(r"[\w-]+", competition_id) else None
    for location in (package.submodule_search_locations or []) if package else []:
        if (folder := Path(location) / "competitions" / competition_id).is_dir():
            return folder
    return None


@dataclass(frozen=True)
class BenchCompetition(Competition):
    """A competition that MLE-bench's own code grades. All its rows are scored at once: none can be held out."""

    grader = "MLE-bench's own code"
    grading_s = 2 * (START_S + CONTROL_S + MOST_S)

    def __post_init__(self) -> None:
        if self.holdout:
            raise CompetitionError(f"{self.id!r} is graded by {self.grader}, on all rows: set holdout: 0")

    def grade(self, submission: Path | str | bytes) -> Score:
        """
        Scores a submission with MLE-bench's code.

        Args:
            submission (`Path`, `str` or `bytes`):
                Path of a CSV file, or its content as bytes.

        Returns:
            [`Score`]: The score, or the reason for its absence.

        Raises:
            [`GradingFailed`]: The grader does not work, whatever the submission.
        """
        try:
            content = submission if isinstance(submission, bytes) else Path(submission).read_bytes()
            check_width(content)
        except OSError as error:
            return invalid(f"the submission cannot be read: {error.strerror}")
        except ValueError as error:
            return invalid(str(error))
        with tempfile.NamedTemporaryFile(suffix=".csv") as file:
            file.write(content)
            file.flush()
            answer = self._graded(file.name)
        return Score(answer["score"], valid=True) if "score" in answer else invalid(answer["invalid"])

    def _graded(self, submission: str) -> dict[str, Any]:
        """
        The grader's answer. A program cannot choose to be our failure: a submission is invalid if the grader breaks off or
        hangs twice, each time after it has scored one that is known to be valid.
        """
        for _ in range(2):
            control = self._control()
            limit_s = min(max(LEAST_S, SLOWER * control["seconds"]), MOST_S)
            try:
                return self._grader.ask(limit_s, ask="grade", name=self.id, submission=submission)
            except GradingFailed as error:
                if not control["works"]:
                    raise
                failure = error
        return {"invalid": f"the grader fails on it: {failure}"}

    def _control(self) -> dict[str, Any]:
        return self._grader.ask(CONTROL_S, ask="control", name=self.id)

    def predictions(self, submission: bytes) -> pd.DataFrame:
        raise CompetitionError(f"only MLE-bench's code reads the submissions of {self.id!r}")

    def check_answers(self) -> None:
        """Raises [`CompetitionError`] if there are none, or if the grader scores nothing."""
        if not self.answers.is_file():
            raise CompetitionError(f"{self.id!r} lacks the file {self.answers}")
        try:
            works = self._control()["works"]
        except GradingFailed as error:
            raise CompetitionError(f"{self.id!r} cannot be graded: {error}") from error
        if not works:
            raise CompetitionError(
                f"MLE-bench's code scores neither the sample submission of {self.id!r} nor the right one: prepare it again"
            )

    @property
    def _grader(self) -> "BenchGrader":
        return _grader(str(self.public_dir.parents[2]), os.getpid())


def load_bench(competition_id: str, data_dir: Path) -> BenchCompetition:
    """
    Loads one of MLE-bench's competitions.

    Args:
        competition_id (`str`):
            Its id.
        data_dir (`Path`):
            Where `mlebench prepare` has put it.

    Returns:
        [`BenchCompetition`]: The competition.

    Raises:
        [`CompetitionError`]: MLE-bench does not start, or files are missing.
    """
    try:
        facts = _grader(str(data_dir), os.getpid()).ask(CONTROL_S, ask="describe", name=competition_id)
        columns = list(pd.read_csv(facts["sample_submission"], nrows=0).columns)
    except GradingFailed as error:
        raise CompetitionError(f"{competition_id!r} cannot be loaded by mlebench: {error}") from error
    except (OSError, ValueError) as error:
        raise CompetitionError(
            f"the sample submission of {competition_id!r} cannot be read: {' '.join(str(error).split())}"
        ) from error
    metric = facts["metric"]
    return BenchCompetition(
        id=competition_id,
        metric=metric,
        public_dir=Path(facts["public_dir"]),
        sample_submission=Path(facts["sample_submission"]),
        answers=Path(facts["answers"]),
        target_columns=tuple(columns[1:]),
        id_column=columns[0],
        custom_metric=Metric(_not_here, facts["higher_is_better"]),
    )


def _not_here(answers: pd.DataFrame, predictions: pd.DataFrame) -> float:
    raise ValueError("only MLE-bench's code computes this metric")


class BenchGrader:
    """
    A process with MLE-bench. It starts with the first question, and again if it ended.

    Args:
        data_dir (`str`):
            Where `mlebench prepare` has put the competitions.
    """

    def __init__(self, data_dir: str):
        self._data_dir = data_dir
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def ask(self, limit_s: float, **question: str) -> dict[str, Any]:
        """
        Asks, and waits for the answer.

        Args:
            limit_s (`float`):
                Seconds to wait, besides the start.
            **question (`str`):
                What to ask: see `bench_grader.py`.

        Returns:
            `dict[str, Any]`: The answer.

        Raises:
            [`GradingFailed`]: It ended, took too long, or failed.
        """
        with self._lock:
            if self._process is not None and self._process.poll() is not None:  # killed from outside
                self.close()
            try:
                process = self._process or self._start()
                self._send(process, question | {"data_dir": self._data_dir})
                answer = self._receive(process, limit_s)
            except GradingFailed:
                self.close()
                raise
        if "failed" in answer:
            raise GradingFailed(" ".join(answer["failed"].split())[:300])
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-u", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
            # What is found here is found there; GPUs are for training
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "CUDA_VISIBLE_DEVICES": ""},
        )
        self._receive(self._process, START_S)
        return self._process

    def _send(self, process: subprocess.Popen[bytes], question: dict[str, str]) -> None:
        assert process.stdin is not None
        self._said.seek(0)  # for both processes: what was printed before is not kept
        self._said.truncate()
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError as error:
            self._kill(process)
            raise GradingFailed(self._last_words(process)) from error

    def _receive(self, process: subprocess.Popen[bytes], limit_s: float) -> dict[str, Any]:
        assert process.stdout is not None
        deadline = time.monotonic() + limit_s
        received = bytearray()
        while not received.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise GradingFailed(f"mlebench did not answer within {limit_s:g} s")
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                self._kill(process)  # it may have closed its pipe and live on
                raise GradingFailed(self._last_words(process))
            received += chunk
        return json.loads(received)

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        code = process.wait()
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - 10_000))
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return f"mlebench ended with {code}: {lines[-1] if lines else 'it said nothing'}"

    def close(self) -> None:
        """Ends the process."""
        if self._process is None:
            return
        process, self._process = self._process, None
        self._kill(process)
        process.communicate()
        self._said.close()

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@functools.cache
def _grader(data_dir: str, process_id: int) -> BenchGrader:
    """The process for a folder, one for each of ours: a forked one must not share its pipes."""
    return BenchGrader(data_dir)
