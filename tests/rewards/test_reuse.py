"""Equal programs run once, if `reuse_results` asks for it."""

import json
from dataclasses import replace

import pytest
from support.fake_executor import FakeExecutor
from support.scripted_executor import SOLUTION
from support.scripted_model import ScriptedModel

from trl_mle.execution import ExecutionResult, Limits, LocalExecutor, Outcome, ProgramFuture
from trl_mle.instrumentation import AstInstrumenter, LmInstrumenter
from trl_mle.rewards import MLEReward
from trl_mle.solutions import ResultStore


FIRST = "```python\nx = 1  # the first\n```"
SECOND = "```python\nx   =   1\n```"
OTHER = "```python\nx = 2\n```"
FAILED = ExecutionResult(Outcome.ERROR, "exit code 1", 1.5, cpu_s=1.0, exit_code=1, stdout="out", queue_wait_s=3.0)
BROKEN = ExecutionResult(Outcome.INFRASTRUCTURE, "the disk is full")


class LateExecutor(FakeExecutor):
    """The test completes its futures, or they complete at once with `result`."""

    def __init__(self, result=None):
        self.result, self.programs, self.futures = result, [], []

    def submit(self, program, competition):
        self.programs.append(program)
        self.futures.append(ProgramFuture())
        if self.result is not None:
            self.futures[-1].set_result(self.result)
        return self.futures[-1]


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "results.sqlite")


@pytest.fixture
def unchecked(monkeypatch):
    """No repeat is executed to check whether its result is the same."""
    monkeypatch.setattr("trl_mle.solutions.store.CHECKED", 2**33)


def valid(wine, value=1.0):
    """The result of a program with the right submission, or with label 0 in all rows if `value` is below 1."""
    lines = wine.answers.read_text().splitlines()
    if value < 1:
        lines[1:] = [f"{line.rsplit(',', 1)[0]},0" for line in lines[1:]]
    return ExecutionResult(Outcome.OK, duration_s=1.0, exit_code=0, submission="\n".join(lines).encode())


def reward_of(executor, wine, store, **options):
    return MLEReward([wine], executor, results=store, show_progress=False, **options)


def test_a_repeat_comes_to_what_the_first_one_did(wine, store, tmp_path, unchecked):
    executor = LateExecutor(FAILED)
    reward = reward_of(executor, wine, store, log_dir=tmp_path / "log")
    first = reward.evaluate(FIRST, "wine")
    repeats = reward.evaluate_many([(SECOND, "wine"), (FIRST, "wine"), (OTHER, "wine"), ("prose", "wine")])
    assert len(executor.programs) == 2
    assert not first.reused
    assert first.queue_wait_s == 3.0
    assert repeats[0] == replace(first, source="x   =   1", queue_wait_s=0.0, reused=True)
    assert repeats[1] == replace(first, queue_wait_s=0.0, reused=True)
    assert [item.reused for item in repeats] == [True, True, False, False]
    lines = [json.loads(line) for line in (tmp_path / "log" / "rank-0.jsonl").read_text().splitlines()]
    # Known results are recorded first
    assert [line["reused"] for line in lines] == [False, True, True, False]
    assert [line["duration_s"] for line in lines] == [1.5] * 4
    assert lines[0].keys() == lines[1].keys()


def test_another_run_reuses_under_the_same_conditions_only(wine, store, unchecked):
    class Slower(LateExecutor):
        limits = Limits(timeout_s=120)

    def reused(executor=None, **options):
        return reward_of(executor or LateExecutor(FAILED), wine, store, **options).evaluate(FIRST, "wine").reused

    conditions = [{}, {"executor": Slower(FAILED)}, {"instrumenter": AstInstrumenter()}, {"fail_reward": -5.0}]
    assert [reused(**options) for options in conditions] == [False] * 4
    assert [reused(**options) for options in conditions] == [True] * 4
    renamed = replace(wine, id="vino")
    assert reward_of(LateExecutor(FAILED), renamed, store).evaluate(FIRST, "vino").reused
    assert not reward_of(LateExecutor(FAILED), replace(wine, id_first=True), store).evaluate(FIRST, "wine").reused


@pytest.mark.parametrize("outcome", ["timeout", "out_of_memory", "output_limit", "killed", "infrastructure"])
def test_what_a_program_did_not_end_itself_is_never_reused(wine, store, outcome):
    executor = LateExecutor(replace(FAILED, outcome=Outcome(outcome)))
    reward = reward_of(executor, wine, store)
    both = reward.evaluate_many([(FIRST, "wine"), (SECOND, "wine")])
    once = len(executor.programs)
    assert once == (4 if outcome == "infrastructure" else 2)
    assert not reward.evaluate(FIRST, "wine").reused
    assert len(executor.programs) > once
    assert [item.source for item in both] == ["x = 1  # the first", "x   =   1"]  # each as the policy wrote it


def test_an_equal_program_in_flight_is_waited_for(wine, store):
    executor = LateExecutor()
    reward = reward_of(executor, wine, store)
    first, second = reward.submit([(FIRST, "wine"), (SECOND, "wine")])
    [third] = reward.submit([(FIRST, "wine")])  # while it runs
    assert len(executor.programs) == 1
    assert second.future is third.future is first.future
    executor.futures[0].set_running_or_notify_cancel()
    assert not second.poll()
    assert 0 <= second.running_s() < 60
    executor.futures[0].set_result(BROKEN)
    assert not third.poll()  # this starts another run of the first program
    assert third.future is executor.futures[1]
    assert not third.future.done()  # not the future that is over
    executor.futures[1].set_result(FAILED)
    assert second.poll()
    assert third.poll()
    assert first.poll()
    assert [item.result().reused for item in (first, second, third)] == [False, True, True]
    assert len(executor.programs) == 2
    assert reward.reuse.running == {}


def test_who_has_waited_in_vain_runs_by_itself(wine, store, unchecked):
    executor = LateExecutor()
    reward = reward_of(executor, wine, store, instrumenter=AstInstrumenter())
    first, second = reward.submit([(FIRST, "wine"), (SECOND, "wine")])
    executor.futures[0].set_result(replace(FAILED, outcome=Outcome.TIMEOUT))
    assert first.poll()
    assert not second.poll()
    assert second.future is executor.futures[1]
    executor.futures[1].set_result(FAILED)
    assert second.poll()
    assert second.result().outcome == Outcome.ERROR
    assert (second.result().source, second.result().reused) == ("x   =   1", False)
    assert reward_of(executor, wine, store, instrumenter=AstInstrumenter()).evaluate(FIRST, "wine").reused
    assert reward.longest_s(3) == 0.0


@pytest.mark.parametrize("runs", [True, False])
def test_nobody_waits_for_a_stopped_program(wine, store, unchecked, runs):
    executor = LateExecutor()
    reward = reward_of(executor, wine, store)
    first, second, third = reward.submit([(FIRST, "wine"), (SECOND, "wine"), (FIRST, "wine")])
    reward.stop(third)  # it only waits, as the second does
    assert not executor.futures[0].cancelled()
    if runs:
        executor.futures[0].set_running_or_notify_cancel()
    reward.stop(first)
    assert executor.futures[0].cancelled() is not runs
    assert executor.futures[0].stopping.is_set() is runs
    [later] = reward.submit([(FIRST, "wine")])
    assert later.future is executor.futures[1]
    if runs:
        executor.futures[0].set_result(replace(FAILED, outcome=Outcome.KILLED))
    assert not second.poll()
    assert second.future is executor.futures[2]
    for future in executor.futures[1:]:
        future.set_result(FAILED)
    assert second.poll()
    assert later.poll()
    assert second.result().outcome == later.result().outcome == Outcome.ERROR


def test_programs_end_when_the_time_is_up(wine, store):
    executor = LateExecutor()
    reward = reward_of(executor, wine, store)
    stopped = reward.evaluate_many([(FIRST, "wine"), (SECOND, "wine"), (OTHER, "wine")], time_is_up=lambda: True)
    assert [item.outcome for item in stopped] == [Outcome.KILLED] * 3
    assert [future.cancelled() for future in executor.futures] == [True, True]
    assert reward.reuse.running == {}


def test_the_instrumenter_is_asked_for_every_batch_and_only_for_new_programs(wine, store, unchecked):
    batches = []

    class Noting(AstInstrumenter):
        def instrument_many(self, sources):
            batches.append(list(sources))
            return super().instrument_many(sources)

    reward = reward_of(LateExecutor(FAILED), wine, store, instrumenter=Noting())
    for items in ([FIRST, SECOND, OTHER], [SECOND], ["prose"]):
        reward.evaluate_many([(text, "wine") for text in items])
    assert batches == [["x = 1  # the first", "x = 2"], [], []]


def test_prints_that_a_silent_model_did_not_place_are_not_reused(wine, store, unchecked):
    """The model may answer the next time, and then there are other milestones."""
    model = ScriptedModel(None, None, "imports: 1")
    reward = reward_of(LateExecutor(FAILED), wine, store, instrumenter=LmInstrumenter(model))
    assert [reward.evaluate(FIRST, "wine").reused for _ in range(4)] == [False, False, False, True]


def test_who_waits_for_another_has_not_run(wine, store, unchecked):
    executor = LateExecutor()
    first, second = reward_of(executor, wine, store).submit([(FIRST, "wine"), (SECOND, "wine")])
    executor.futures[0].started = 0.0
    assert first.running_s() > 0 == second.running_s()
    executor.futures[0].set_result(replace(FAILED, duration_s=1e-9))
    assert first.poll()
    assert second.poll()
    assert [item.result().reused for item in (first, second)] == [False, True]


def test_repeats_that_are_checked_show_programs_that_differ(wine, store, monkeypatch):
    monkeypatch.setattr("trl_mle.solutions.store.CHECKED", 1)
    executor = LateExecutor(valid(wine))
    reward = reward_of(executor, wine, store)
    assert reward.evaluate(FIRST, "wine").matches is None
    again = reward.evaluate(SECOND, "wine")
    assert (again.matches, again.reused) == (True, False)
    executor.result = valid(wine, 0.5)
    other = reward.evaluate(SECOND, "wine")
    assert (other.matches, other.score.value < 1) == (False, True)  # the executed result counts
    executor.result = BROKEN  # the known result counts
    broken = reward.evaluate(SECOND, "wine")
    assert (broken.matches, broken.reused, broken.score) == (None, True, again.score)
    columns = {}
    reward([""], [SECOND], evaluation=[other], log_extra=columns.__setitem__)
    assert (columns["reused"], columns["matches"]) == ([False], [False])


def test_the_submission_of_what_would_be_best_is_not_missed(wine, store, tmp_path, unchecked):
    reward_of(LateExecutor(valid(wine)), wine, store).evaluate(
        FIRST, "wine"
    )  # another run, which kept no best solution
    executor = LateExecutor(valid(wine))
    reward = reward_of(executor, wine, store, best_solutions_dir=tmp_path / "best")
    assert [reward.evaluate(SECOND, "wine").reused for _ in range(3)] == [False, True, True]
    assert len(executor.programs) == 1
    assert (tmp_path / "best" / "wine" / "submission.csv").read_bytes() == valid(wine).submission


def test_without_a_store_nothing_is_reused(wine):
    executor, columns = LateExecutor(FAILED), {}
    MLEReward([wine], executor, show_progress=False)(["", ""], [FIRST, FIRST], log_extra=columns.__setitem__)
    assert len(executor.programs) == 2
    assert "reused" not in columns


def test_programs_that_are_really_executed(wine, store, unchecked):
    text = SOLUTION.replace("\nmodel.fit", "\n# now\nmodel.fit")
    with LocalExecutor(max_parallel=2, timeout_s=20) as executor:
        reward = reward_of(executor, wine, store, instrumenter=AstInstrumenter())
        first, second = reward.evaluate_many([(SOLUTION, "wine"), (text, "wine")])
        other = reward_of(executor, wine, store, instrumenter=AstInstrumenter()).evaluate(text, "wine")
        identity = executor.identity
    assert first.valid
    assert len(first.milestones) > 3
    assert other == replace(first, source=second.source, queue_wait_s=0.0, reused=True)
    assert second == other
    assert "# now" in second.source
    assert identity["installed"]
    assert identity["tier"] == executor.tier.name
    assert json.loads(json.dumps(identity))["timeout_s"] == 20
