"""Equal programs run once, if `reuse_results` asks for it."""

import json
from dataclasses import replace

import pytest
from support.fake_executor import FakeExecutor

from trl_mle.execution import ExecutionResult, Outcome, ProgramFuture
from trl_mle.rewards import MLEReward


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


def reward_of(executor, wine, **options):
    return MLEReward([wine], executor, **({"reuse_results": True, "show_progress": False} | options))


def test_a_repeat_comes_to_what_the_first_one_did(wine, tmp_path):
    executor = LateExecutor(FAILED)
    reward = reward_of(executor, wine, log_dir=tmp_path / "log")
    first = reward.evaluate(FIRST, "wine")
    repeats = reward.evaluate_many([(SECOND, "wine"), (FIRST, "wine"), (OTHER, "wine"), ("prose", "wine")])
    assert len(executor.programs) == 2
    assert repeats[0] == replace(first, source="x   =   1", queue_wait_s=0.0, reused=True)
    assert [item.reused for item in repeats] == [True, True, False, False]
    lines = map(json.loads, (tmp_path / "log" / "rank-0.jsonl").read_text().splitlines())
    # Known results are recorded first
    assert [(line["reused"], line["duration_s"]) for line in lines] == [(i in (1, 2), 1.5) for i in range(4)]


@pytest.mark.parametrize("outcome", ["timeout", "infrastructure"])
def test_what_a_program_did_not_end_itself_is_never_reused(wine, outcome):
    executor = LateExecutor(replace(FAILED, outcome=Outcome(outcome)))
    reward = reward_of(executor, wine)
    both = reward.evaluate_many([(FIRST, "wine"), (SECOND, "wine")])
    once = len(executor.programs)
    assert once == (4 if outcome == "infrastructure" else 2)
    assert not reward.evaluate(FIRST, "wine").reused
    assert len(executor.programs) > once
    assert [item.source for item in both] == ["x = 1  # the first", "x   =   1"]  # each as the policy wrote it


def test_an_equal_program_in_flight_is_waited_for(wine):
    executor = LateExecutor()
    reward = reward_of(executor, wine)
    first, second = reward.submit([(FIRST, "wine"), (SECOND, "wine")])
    [third] = reward.submit([(FIRST, "wine")])  # while it runs
    assert len(executor.programs) == 1
    executor.futures[0].set_running_or_notify_cancel()
    executor.futures[0].started = 0.0
    assert not second.poll()
    assert first.running_s() > 0 == second.running_s()
    executor.futures[0].set_result(BROKEN)
    assert not third.poll()  # this starts another run of the first program
    assert third.awaited is executor.futures[1]
    executor.futures[1].set_result(FAILED)
    assert all([second.poll(), third.poll(), first.poll()])
    assert [item.result().reused for item in (first, second, third)] == [False, True, True]
    assert len(executor.programs) == 2


@pytest.mark.parametrize("runs", [True, False])
def test_nobody_waits_for_a_stopped_program(wine, runs):
    executor = LateExecutor()
    reward = reward_of(executor, wine)
    first, second, third = reward.submit([(FIRST, "wine"), (SECOND, "wine"), (FIRST, "wine")])
    reward.stop(third)  # it only waits, as the second does
    assert not executor.futures[0].cancelled()
    if runs:
        executor.futures[0].set_running_or_notify_cancel()
    reward.stop(first)
    [later] = reward.submit([(FIRST, "wine")])
    assert later.future is executor.futures[1]
    if runs:
        executor.futures[0].set_result(replace(FAILED, outcome=Outcome.KILLED))
    assert not second.poll()
    for future in executor.futures[1:]:
        future.set_result(FAILED)
    assert second.poll()
    assert later.poll()
    assert second.result().outcome == later.result().outcome == Outcome.ERROR


def test_without_the_option_nothing_is_reused(wine):
    executor = LateExecutor(FAILED)
    results = reward_of(executor, wine, reuse_results=False).evaluate_many([(FIRST, wine)] * 2)
    assert [item.reused for item in results] == [None, None]
    assert len(executor.programs) == 2
