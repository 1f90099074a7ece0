"""Completions whose programs may still be running, see [`~trl_mle.rewards.MLEReward.submit`]."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from trl_mle.competitions import Competition, Score
from trl_mle.execution import ExecutionResult, Executor, Outcome, ProgramFuture
from trl_mle.execution.program import Program
from trl_mle.rewards.evaluation import Evaluation


class PendingEvaluation:
    """A completion that is or will be evaluated."""

    def __init__(self, evaluation: Evaluation | None = None):
        self._evaluation = evaluation
        self.future = ProgramFuture()

    def poll(self) -> bool:
        """Judges the program if it has just ended; returns whether the evaluation is available."""
        return self._evaluation is not None

    def result(self) -> Evaluation:
        assert self._evaluation is not None  # once `poll` has returned `True`
        return self._evaluation

    def stop(self) -> None:
        self.future.stop()

    @property
    def awaited(self) -> Future[Any]:
        """What [`poll`] waits for now."""
        return self.future

    def running_s(self) -> float:
        """Seconds since the program got its slot; 0 while it is queued, or if the executor does not report it."""
        return 0.0 if self.future.started is None else time.monotonic() - self.future.started


class Execution(PendingEvaluation):
    """A program that is executed, and once more if our infrastructure failed. `judge` turns an execution and its
    score into an evaluation."""

    def __init__(
        self,
        executor: Executor,
        program: Program,
        competition: Competition,
        judge: Callable[[Program, ExecutionResult, Future[Score | None]], Evaluation],
    ):
        super().__init__()
        self._executor = executor
        self.program = program
        self._competition = competition
        self._judge = judge
        self._retried = False
        self._grading: Future[Score | None] | None = None
        self.future = executor.submit(program, competition)

    def poll(self) -> bool:
        if self._grading is None and self.future.done():
            self._grading = _graded(self.future.result(), self._competition)
        if self._evaluation is None and self._grading is not None and self._grading.done():
            evaluation = self._judge(self.program, self.future.result(), self._grading)
            if evaluation.infrastructure_failed and not self._retried:
                self._retried, self._grading = True, None
                self.future = self._executor.submit(self.program, self._competition)
                return self.poll()
            self._evaluation = evaluation
        return super().poll()

    @property
    def awaited(self) -> Future[Any]:
        return self.future if self._grading is None else self._grading

    def running_s(self) -> float:
        if self._grading is not None:  # it has ended
            return self.future.result().duration_s or 0.0
        return super().running_s()


def _graded(result: ExecutionResult, competition: Competition) -> Future[Score | None]:
    """The score of a submission, `None` without one; by a thread if the metric, which may take long, is not ours."""
    grading: Future[Score | None] = Future()
    submission = result.submission if result.outcome is Outcome.OK else None

    def grade() -> None:
        try:
            grading.set_result(None if submission is None else competition.grade(submission))
        except BaseException as error:  # raised where the score is asked for
            grading.set_exception(error)

    if submission is not None and competition.custom_metric is not None:
        threading.Thread(target=grade, name="trl_mle-grading", daemon=True).start()
    else:
        grade()
    return grading


class Repeat(PendingEvaluation):
    """A program that waits for an equal one, and is executed if that is stopped, or if `reuse` returns `None`: the
    other's text, because the instrumenter may only be called by all processes together."""

    def __init__(
        self,
        first: Execution,
        reuse: Callable[[Evaluation], Evaluation | None],
        execute: Callable[[Program], Execution],
    ):
        super().__init__()
        self._first, self._reuse, self._execute = first, reuse, execute
        self._own: Execution | None = None

    def poll(self) -> bool:
        if self._evaluation is None and self._own is None:
            is_stopped = self._first.future.cancelled()
            if is_stopped or self._first.poll():
                self._evaluation = None if is_stopped else self._reuse(self._first.result())
                if self._evaluation is None:
                    self._own = self._execute(self._first.program)
        if self._own is not None and self._own.poll():
            self._evaluation = self._own.result()
        return super().poll()

    def stop(self) -> None:
        if self._own is not None:  # others may need the one that it waits for
            self._own.stop()

    @property
    def awaited(self) -> Future[Any]:
        return (self._own or self._first).awaited

    def running_s(self) -> float:
        return 0.0 if self._own is None else self._own.running_s()  # the other program's time does not count
