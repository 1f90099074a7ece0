"""Completion → code → instrumented program → execution → grade → reward."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from trl_mle.competitions import Competition, CompetitionError, GradingFailed, Score, TaskSet
from trl_mle.execution import ExecutionResult, Executor, LocalExecutor, Outcome
from trl_mle.execution.program import Program
from trl_mle.instrumentation import MILESTONES, AstInstrumenter, Instrumenter
from trl_mle.prompts import extract_code
from trl_mle.rewards.evaluation import Evaluation, columns_of
from trl_mle.rewards.pending import Execution, PendingEvaluation, Repeat
from trl_mle.rewards.program_log import ProgramLog
from trl_mle.rewards.progress import ProgramsProgress
from trl_mle.solutions import BestSolutions, syntax_tree_id


logger = logging.getLogger(__name__)

POLL_S = 0.2  # of the progress line
# Of programs that ended by themselves: those that were ended may end differently next time
REUSABLE = (Outcome.OK, Outcome.ERROR)


def lowest_valid_reward(fail_reward: float = -10.0, milestone_reward: float = 0.1, valid_margin: float = 0.3) -> float:
    """The minimum reward of a valid submission, above all failures; takes arguments of [`MLEReward`]."""
    return fail_reward + milestone_reward * len(MILESTONES) + valid_margin


class MLEReward:
    """
    The reward of "Reinforcement Learning for Machine Learning Engineering Agents"
    (https://huggingface.co/papers/2509.01684), sections 4.2 and 5.1, as a TRL reward function.

    | the completion | reward |
    |---|---|
    | no code, a program that fails, an invalid submission | `fail_reward`, `milestone_reward` per milestone reached |
    | a valid submission | the score (its sign flipped where lower is better), at least `floor` |
    | our own infrastructure failed, twice | `None` |

    `floor = fail_reward + milestone_reward * len(MILESTONES) + valid_margin`, above every failed program.

    Args:
        competitions ([`~trl_mle.competitions.TaskSet`] or `list[Competition | str]`):
            Competitions, or their ids, for the `competition` column of the dataset.
        executor ([`~trl_mle.execution.Executor`], *optional*):
            Runs the programs. Defaults to a [`~trl_mle.execution.LocalExecutor`], which nobody needs to close.
        instrumenter ([`~trl_mle.instrumentation.Instrumenter`], *optional*, defaults to `"ast"`):
            Inserts the milestone prints; `"ast"` for an [`~trl_mle.instrumentation.AstInstrumenter`]. With `None`,
            there is no partial credit.
        fail_reward (`float`, *optional*, defaults to `-10.0`):
            Reward of a program that fails.
        milestone_reward (`float`, *optional*, defaults to `0.1`):
            Partial credit per milestone.
        valid_margin (`float`, *optional*, defaults to `0.3`):
            Distance between the best failed program and the floor of a valid submission.
        show_progress (`bool`, *optional*, defaults to `True`):
            Whether the main process shows a progress line on a terminal while programs run.
        log_dir (`str` or `Path`, *optional*):
            Folder for a [`ProgramLog`] `rank-<rank>.jsonl` of all programs per process, without sources and outputs.
        best_solutions_dir (`str` or `Path`, *optional*):
            Folder for the best solution of each competition (see [`BestSolutions`]).
        reuse_results (`bool`, *optional*, defaults to `False`):
            Whether this process executes equal programs (with the same syntax tree) for a competition once.
    """

    __name__ = "mle_reward"  # TRL names the reward's metrics after it

    def __init__(
        self,
        competitions: TaskSet | Sequence[Competition | str],
        executor: Executor | None = None,
        instrumenter: Instrumenter | Literal["ast"] | None = "ast",
        fail_reward: float = -10.0,
        milestone_reward: float = 0.1,
        valid_margin: float = 0.3,
        show_progress: bool = True,
        log_dir: str | Path | None = None,
        best_solutions_dir: str | Path | None = None,
        reuse_results: bool = False,
    ):
        self.competitions = TaskSet.of(competitions)
        self.executor = executor if executor is not None else LocalExecutor()
        self.instrumenter = AstInstrumenter() if instrumenter == "ast" else instrumenter
        self.fail_reward = fail_reward
        self.milestone_reward = milestone_reward
        self.floor = lowest_valid_reward(fail_reward, milestone_reward, valid_margin)
        loaded = [self.competitions[name] for name in self.competitions.few()]
        for competition in loaded:
            competition.check_answers()  # and read them, before the folder can disappear
            self._check_floor(competition)
        self._grading_s = max((comp.grading_s for comp in loaded), default=0.0)
        rank = os.environ.get("RANK", "0")  # launchers set it in every process they start
        self.show_progress = show_progress and rank == "0"
        self._running_dir = Path(log_dir) if log_dir is not None and rank == "0" else None
        self.log = ProgramLog(Path(log_dir) / f"rank-{rank}.jsonl") if log_dir is not None else None
        self.best_solutions = BestSolutions(Path(best_solutions_dir)) if best_solutions_dir is not None else None
        self.reuse_results = reuse_results
        self._equal: dict[tuple[str, str], Execution | Evaluation] = {}  # the first of each `_key`, from its start on

    def _check_floor(self, competition: Competition) -> None:
        scoring = competition.scoring
        if scoring.best is not None and scoring.gain(scoring.best) <= self.floor:
            raise CompetitionError(
                f"fail_reward={self.fail_reward:g} lifts the floor to {self.floor:g}, above every score of "
                f"{competition.id}: lower it"
            )

    def __call__(
        self,
        prompts: list[Any],
        completions: list[Any],
        competition: Sequence[Competition | str] | None = None,
        evaluation: list[Evaluation] | None = None,
        log_extra: Callable[[str, list], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **kwargs: Any,
    ) -> list[float | None]:
        """The reward of each completion, a text or a conversation whose last message it is. `competition` is the
        dataset's column of ids, optional if there is only one; `evaluation` has evaluations from before, as
        [`~trl_mle.trainer.MLEGRPOTrainer`] makes them."""
        evaluations = evaluation or self.evaluations(completions, competition=competition, **kwargs)
        if log_extra is not None:
            for name, values in columns_of(evaluations).items():
                log_extra(name, values)
            if evaluation is None:
                log_extra("program", [item.source for item in evaluations])
        if log_metric is not None:
            for item in evaluations:
                if item.quality is not None:  # one call each: TRL averages over all calls of all processes
                    log_metric("mle/floored_rate", float(item.quality < self.floor))
            for name, value in self.instrumenter.metrics().items() if self.instrumenter is not None else ():
                log_metric(f"mle/instrumenter/{name}", value)
        return [item.reward for item in evaluations]

    def evaluations(
        self, completions: Sequence[Any], competition: Sequence[Competition | str] | None = None, **kwargs: Any
    ) -> list[Evaluation]:
        """Evaluates a batch of TRL's completions, as [`__call__`] gets them; `kwargs` are for subclasses. With
        `async_rollouts` the trainer calls [`submit`] instead."""
        return self.evaluate_many(self.items(completions, competition))

    def items(
        self, completions: Sequence[Any], competition: Sequence[Competition | str] | None
    ) -> list[tuple[str, Competition | str]]:
        """The texts of TRL's completions, each with its competition."""
        ids = competition if competition is not None else [self._only_competition()] * len(completions)
        texts = [item if isinstance(item, str) else item[-1]["content"] for item in completions]
        return list(zip(texts, ids, strict=True))

    def overrides(self, *methods: str) -> bool:
        """Whether a subclass has one of these methods of its own."""
        return any(getattr(type(self), method) is not getattr(MLEReward, method) for method in methods)

    def check_known(self, competition: Iterable[str] | None) -> None:
        """Raises `ValueError` if a column of ids names an unknown competition, or lacks though there are several."""
        for name in [self._only_competition()] if competition is None else dict.fromkeys(competition):
            if name not in self.competitions:
                names = ", ".join(self.competitions.few())
                raise ValueError(f"the reward does not know the competition {name!r}; it was given: {names}")

    def longest_s(self, completions: int) -> float:
        """Maximum time in seconds if every process evaluates this many at once: each may run and be graded twice, and
        may first wait equally long for an equal one."""
        once_s = self.executor.longest_s(completions) + completions * self._grading_s
        return (4 if self.reuse_results else 2) * once_s

    def evaluate(self, completion: str, competition: Competition | str) -> Evaluation:
        """Evaluates one completion."""
        return self.evaluate_many([(completion, competition)])[0]

    def evaluate_many(
        self,
        items: Sequence[tuple[str, Competition | str]],
        on_done: Callable[[int, Evaluation], None] = lambda index, evaluation: None,
        time_is_up: Callable[[], bool] = lambda: False,
    ) -> list[Evaluation]:
        """Evaluates completions, in parallel as far as the executor allows. `on_done` gets the index and the
        evaluation of each when it is known. Once `time_is_up`, programs that still run end, without a reward."""
        return self.wait_for(self.submit(items), on_done, time_is_up)

    def wait_for(
        self,
        pending: Sequence[PendingEvaluation],
        on_done: Callable[[int, Evaluation], None] = lambda index, evaluation: None,
        time_is_up: Callable[[], bool] = lambda: False,
    ) -> list[Evaluation]:
        running = dict(enumerate(pending))
        valid = 0
        try:
            with self.progress(len(pending)) as progress:
                while running:
                    for index in [index for index, item in running.items() if item.poll()]:
                        evaluation = running.pop(index).result()
                        valid += evaluation.valid
                        on_done(index, evaluation)
                    if running and time_is_up():
                        break
                    slowest = max((item.running_s() for item in running.values()), default=0.0)
                    progress.update(len(pending) - len(running), f"valid {valid}, slowest running {slowest:.0f} s")
                    wait([item.awaited for item in running.values()], timeout=POLL_S, return_when=FIRST_COMPLETED)
        finally:  # also after an interrupt
            for item in running.values():
                self.stop(item)
        stopped = Evaluation(None, outcome=Outcome.KILLED, detail="the time was up")
        return [stopped if i in running else item.result() for i, item in enumerate(pending)]

    def progress(self, count: int) -> ProgramsProgress:
        return ProgramsProgress(count, self.show_progress, self._running_dir)

    def submit(self, items: Sequence[tuple[str, Competition | str]]) -> list[PendingEvaluation]:
        """Queues the programs of completions, as for [`evaluate_many`], without waiting for them."""
        return self.submit_programs([(extract_code(text), which) for text, which in items])

    def submit_programs(self, items: Sequence[tuple[str | None, Competition | str]]) -> list[PendingEvaluation]:
        """The same with programs instead of completions; `None` for a completion without a program."""
        requests = [(source, self._competition(which)) for source, which in items]
        new: dict[int, str] = {}  # those that are executed, by their place: not one whose equal is or was
        begun = set(self._equal)
        for index, (source, competition) in enumerate(requests):
            if source is None or (self.reuse_results and (key := _key(source, competition)) in begun):
                continue
            new[index] = source
            if self.reuse_results:
                begun.add(key)
        texts = list(new.values())
        programs: Sequence[Program] = (
            self.instrumenter.instrument_many(texts) if self.instrumenter is not None else texts
        )
        instrumented = dict(zip(new, programs, strict=True))
        return [self._begin(*request, instrumented.get(index)) for index, request in enumerate(requests)]

    def stop(self, pending: PendingEvaluation) -> None:
        """Ends a program whose result is no longer needed. An equal one that waits for it runs by itself."""
        pending.stop()
        self._equal = {key: first for key, first in self._equal.items() if first is not pending}

    def _begin(self, source: str | None, competition: Competition, program: Program | None) -> PendingEvaluation:
        """Begins an evaluation; `program` is instrumented, if it is executed."""
        if source is None:
            reused = False if self.reuse_results else None
            return PendingEvaluation(Evaluation(self.fail_reward, detail="no code in the completion", reused=reused))
        if program is None:
            first = self._equal[_key(source, competition)]
            if isinstance(first, Evaluation):
                return PendingEvaluation(self._take(source, competition, first))
            return Repeat(first, partial(self._take, source, competition), partial(self._execute, source, competition))
        execution = self._execute(source, competition, program)
        if self.reuse_results:
            self._equal[_key(source, competition)] = execution
        return execution

    def _execute(self, source: str, competition: Competition, program: Program) -> Execution:
        return Execution(self.executor, program, competition, partial(self._judge, source, competition))

    def _judge(
        self,
        source: str,
        competition: Competition,
        program: Program,
        result: ExecutionResult,
        grading: Future[Score | None],
    ) -> Evaluation:
        evaluation = replace(self._rewarded(program, result, competition, grading), source=source)
        if self.reuse_results:
            evaluation = replace(evaluation, reused=False)
            self._equal.pop(_key(source, competition), None)
            if evaluation.outcome in REUSABLE:
                self._equal[_key(source, competition)] = evaluation.shortened()
        self._record(evaluation, result, competition)
        return evaluation

    def _take(self, source: str, competition: Competition, first: Evaluation) -> Evaluation | None:
        """Turns an equal program's evaluation into this one's; `None` if it cannot be reused."""
        if first.outcome not in REUSABLE:
            return None
        evaluation = replace(first, source=source, queue_wait_s=0.0, reused=True)
        self._record(evaluation, None, competition)
        return evaluation

    def _rewarded(
        self, program: Program, result: ExecutionResult, competition: Competition, grading: Future[Score | None]
    ) -> Evaluation:
        """Turns an execution and its score into a reward, by the paper's table."""
        stdout = result.stdout
        milestones: tuple[str, ...] = ()
        if not isinstance(program, str):
            reached = program.reached(stdout)
            milestones = tuple(name for name in MILESTONES if name in reached)
            stdout = stdout.replace(f"{program.nonce} ", "").replace("\r", "")
        try:
            score = grading.result()
        except GradingFailed as error:
            score = None
            result = replace(result, outcome=Outcome.INFRASTRUCTURE, detail=f"the grader failed: {error}")
        if score is None and result.outcome is Outcome.OK:
            score = Score(None, valid=False, error=result.detail or "no submission.csv was written")
        quality = reward = None
        detail = result.detail
        if result.outcome is Outcome.INFRASTRUCTURE:
            pass  # no reward
        elif score is not None and score.valid and score.value is not None:
            quality = competition.scoring.gain(score.value)
            reward, detail = max(self.floor, quality), ""
        else:
            reward = self.fail_reward + self.milestone_reward * len(milestones)
            detail = (score.error or "") if score is not None else detail
        return Evaluation(
            reward=reward,
            duration_s=result.duration_s,
            score=score,
            outcome=result.outcome,
            milestones=milestones,
            output="\n".join(part for part in (stdout.strip(), result.stderr.strip()) if part),
            detail=detail,
            cpu_s=result.cpu_s if result.duration_s is not None else None,
            queue_wait_s=result.queue_wait_s,
            quality=quality,
        )

    def _record(self, evaluation: Evaluation, result: ExecutionResult | None, competition: Competition) -> None:
        source, score = evaluation.source, evaluation.score
        if source is None:
            return
        submission = result.submission if result is not None else None
        if self.best_solutions is not None and submission is not None and score is not None and score.valid:
            try:
                self.best_solutions.offer(competition, source, submission, score)
            except OSError as error:  # for example, a file system without locks: not worth ending the run
                logger.warning("the best solution of %s could not be saved: %s", competition.id, error)
        if self.log is not None:
            memory = result.max_rss_mb if result is not None else None
            program = hashlib.sha256(source.encode("utf-8", errors="surrogatepass")).hexdigest()
            short = replace(evaluation, source=None, output="")
            self.log.append(competition.id, short, program=program, max_rss_mb=memory)

    def _competition(self, which: Competition | str) -> Competition:
        if not isinstance(which, str):
            return which
        self.check_known([which])
        competition = self.competitions[which]
        self._check_floor(competition)
        return competition

    def _only_competition(self) -> str:
        if len(self.competitions) != 1:
            raise ValueError("with several competitions the dataset needs a column `competition` with their ids")
        return next(iter(self.competitions))


def _key(source: str, competition: Competition) -> tuple[str, str]:
    return syntax_tree_id(source), competition.id


def find_reward(reward_funcs: Any) -> MLEReward | None:
    """The [`MLEReward`] among a trainer's reward functions. Raises `ValueError` if there are several."""
    functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
    rewards = [function for function in functions if isinstance(function, MLEReward)]
    if len(rewards) > 1:
        raise ValueError(f"reward_funcs has {len(rewards)} MLERewards: give one, with all competitions")
    return rewards[0] if rewards else None
