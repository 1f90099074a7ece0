"""An executor that runs nothing: it derives each result from the source."""

import hashlib
import math
import random
import time
from functools import lru_cache

import pandas as pd

from support.fake_executor import FakeExecutor
from trl_mle.execution import ExecutionResult, Outcome, ProgramFuture
from trl_mle.instrumentation import InstrumentedProgram


class ReplayExecutor(FakeExecutor):
    """
    Replaces an executor in tests that compare runs: Δt, output and submission are a pure function of the competition and
    the source, as if each program had run once, long ago, and its record were replayed. (Real durations differ in every
    run, and so do the weights.) The source is never executed.

    About 5% of all sources meet a failure of our infrastructure, 20% an error, 10% write no submission, and the rest are
    valid, with scores from the sample submission's to a perfect one. An instrumented program prints its first milestones.
    Each call of `submit` takes `wait_s`, so that there is time to interrupt a run. A `patient` one's programs end
    after 1 to 5 polls, a slow one after more.
    """

    def __init__(self, wait_s: float = 0.0, patient: bool = False):
        self.wait_s = wait_s
        self.patient = patient

    def submit(self, program, competition) -> ProgramFuture:
        time.sleep(self.wait_s)
        result = replay(program, competition)
        if self.patient:
            return AskedFuture(result, asked=int((result.duration_s or 0.0) / 2.5))
        future = ProgramFuture()
        future.set_result(result)
        return future


class AskedFuture(ProgramFuture):
    """Is done after `asked` polls that found it running."""

    def __init__(self, value, asked: int):
        super().__init__()
        self.value, self.asked = value, asked
        self.set_running_or_notify_cancel()
        self.started = math.inf  # it seems to have run for no time, however long the polling takes

    def done(self) -> bool:
        if not super().done():
            if self.asked == 0:
                self.set_result(self.value)
            self.asked -= 1
        return super().done()


def replay(program, competition) -> ExecutionResult:
    source = program.original if isinstance(program, InstrumentedProgram) else program
    record = random.Random(hashlib.sha256(f"{competition.id}\n{source}".encode()).digest())
    luck, quality, duration_s = record.random(), record.randrange(11) / 10, 0.1 + 10 * record.random()
    if luck < 0.05:
        return ExecutionResult(Outcome.INFRASTRUCTURE, "the disk is full")
    lines = [f"epoch {epoch}: loss {1 / (epoch + 1 + quality):.4f}" for epoch in range(int(10 * quality))]
    if isinstance(program, InstrumentedProgram):
        reached = program.milestones[: 1 + int(quality * len(program.milestones))]
        lines += [f"{program.nonce} milestone: {name}" for name in reached]
    stdout = "\n".join([*lines, f"validation score {quality:.4f}"])
    if luck < 0.25:
        error = f"Traceback (most recent call last):\nValueError: {source.splitlines()[0]}"
        return ExecutionResult(Outcome.ERROR, "exit code 1", duration_s, exit_code=1, stdout=stdout, stderr=error)
    submission = None if luck < 0.35 else make_submission(competition, quality)
    return ExecutionResult(Outcome.OK, "", duration_s, exit_code=0, stdout=stdout, submission=submission)


@lru_cache
def make_submission(competition, quality: float) -> bytes:
    """The right answers in the first rows, the sample submission in the others."""
    sample, answers = pd.read_csv(competition.sample_submission), pd.read_csv(competition.answers)
    known = int(quality * len(sample))
    return pd.concat([answers[sample.columns][:known], sample[known:]]).to_csv(index=False).encode()
