import heapq
import json
import random
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_mle.competitions import Score
from trl_mle.rewards import Evaluation
from trl_mle.trainer import MLEGRPOConfig
from trl_mle.trainer.gradient.inclusion import inclusion_weights
from trl_mle.trainer.gradient.weighting import Weighting
from trl_mle.trainer.judged import Judged
from trl_mle.trainer.rollouts.ledger import HISTORY, Rollout, RolloutLedger


def rollouts(count):
    return [
        Rollout({"competition": "wine", "prompt": f"{i}"}, [1, 2], [3], "text", [-0.5], [-0.25]) for i in range(count)
    ]


def evaluation(seconds, reward=0.5):
    return Evaluation(
        reward, seconds, Score(0.5, True), "ok", ("imports",), "printed", "x = 1", cpu_s=0.1, queue_wait_s=0.0
    )


def everything(ledger):
    return ledger.state_dict(), [rollout.id for rollout in ledger.unfinished], ledger.ready


@settings(deadline=None, max_examples=40)  # no timed tests
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]), st.integers(1, 4))
def test_every_rollout_is_trained_or_in_flight(seed, group_size, batches):
    """In any order of finishing, and with a resume at any time; the groups that finished first are taken first."""
    rng, count = random.Random(seed), 8
    ledger = RolloutLedger(batches * count, group_size)
    finished, trained = [], []  # groups in the order of finishing; rollouts
    for _ in range(30):
        if ledger.has_room(count):
            before = ledger.sampled
            added = ledger.add(rollouts(count))
            assert [rollout.id for rollout in added] == list(range(before, before + count))
        running = [rollout.id for rollout in ledger.unfinished]
        for number in rng.sample(running, rng.randrange(len(running) + 1)):
            ledger.observe(number, 0.5)
            ledger.finish(number, evaluation(rng.choice([None, 0.1, 1.0, 5.0])))
            unit = range(number // group_size * group_size, (number // group_size + 1) * group_size)
            if not set(unit) & {rollout.id for rollout in ledger.unfinished}:
                finished.append(unit)
        step = ledger.step
        taken = ledger.take(count)
        if taken:
            assert ledger.step == step + 1
            first, finished = finished[: count // group_size], finished[count // group_size :]
            assert [rollout.id for rollout in taken] == sorted(number for unit in first for number in unit)
            trained += [rollout.id for rollout in taken]
        else:
            assert len(finished) * group_size < count
        assert len(ledger.in_flight) <= ledger.max_in_flight
        assert len(set(trained)) == len(trained) == ledger.trained
        assert sorted([*trained, *ledger.in_flight]) == list(range(ledger.sampled))
        ledger.check([rollout.id for rollout in ledger.unfinished])
        if rng.random() < 0.2:
            restored = RolloutLedger(ledger.max_in_flight, group_size)
            restored.load_state_dict(json.loads(json.dumps(ledger.state_dict())))
            for rollout in ledger.unfinished:
                ledger.durations[rollout.id].seconds = 0.0  # its program starts again
            assert everything(restored) == everything(ledger)
            assert restored.in_flight == ledger.in_flight
            ledger = restored


def test_a_lost_rollout_is_noticed():
    ledger = RolloutLedger(8, 1)
    ledger.add(rollouts(8))
    ledger.finish(3, evaluation(1.0))
    ledger.check([7, 6, 5, 4, 2, 1, 0])
    with pytest.raises(
        RuntimeError, match=r"programs of the rollouts \[0, 1, .* should run, those of \[4, 5, 6, 7\] do"
    ):
        ledger.check([4, 5, 6, 7])
    del ledger.in_flight[0]
    with pytest.raises(RuntimeError, match=r"8 sampled, 0 trained, 7 in flight$"):
        ledger.check(range(1, 8))


def test_a_batch_may_be_larger_than_what_is_in_flight_after_a_resume():
    ledger = RolloutLedger(8, 1)
    ledger.add(rollouts(4))
    assert ledger.has_room(8)
    ledger.add(rollouts(8))
    assert not ledger.has_room(8)


def test_of_another_group_size_is_refused():
    ledger = RolloutLedger(8, 4)
    with pytest.raises(ValueError, match="trained on 4 at a time, not 1"):
        RolloutLedger(8, 1).load_state_dict(ledger.state_dict())


def test_metrics_show_what_is_missing():
    """The slow half of sixteen programs still runs, and has run for long enough to be known as slow."""
    ledger = RolloutLedger(24, 1)
    ledger.add(rollouts(16))
    for number in range(16):
        if number % 2:
            ledger.finish(number, evaluation(1.0 + number / 100))
        else:
            ledger.observe(number, 30.0)
    ledger.finish(14, evaluation(60.0))
    metrics = ledger.metrics(ledger.take(8))
    assert metrics["in_flight"] == 8
    assert metrics["staleness/mean"] == metrics["staleness/max"] == metrics["staleness/q1/p50"] == 0
    assert metrics["sampled_share/q1"] == pytest.approx(0.25)
    assert sum(metrics[f"sampled_share/q{i}"] for i in range(1, 5)) == pytest.approx(1)
    assert metrics["trained_share/q1"] == metrics["trained_share/q2"] == 0.5
    assert metrics["trained_share/q4"] == 0
    ledger.check([rollout.id for rollout in ledger.unfinished])
    assert ledger.ran_s == pytest.approx(sum(1.0 + i / 100 for i in range(1, 16, 2)) + 60 + 7 * 30)


def test_what_has_never_ended_is_missing_from_the_slowest_quartile():
    ledger = RolloutLedger(64, 1)
    ledger.add(rollouts(64))
    for number in range(64):
        if number % 2:
            ledger.finish(number, evaluation(1.0 + number / 100))
        else:
            ledger.observe(number, 5.0)
    metrics = ledger.metrics(ledger.take(32))
    assert metrics["sampled_share/q4"] == 0.5
    assert metrics["trained_share/q4"] == 0
    for name in ("sampled_share", "trained_share"):
        assert sum(metrics[f"{name}/q{i}"] for i in range(1, 5)) == pytest.approx(1)


def test_it_forgets_old_durations_but_of_what_is_in_flight(monkeypatch):
    monkeypatch.setattr("trl_mle.trainer.rollouts.ledger.HISTORY", 64)
    ledger = RolloutLedger(16, 1)
    for step in range(20):
        for rollout in ledger.add(rollouts(8)):
            if rollout.id not in range(3):
                ledger.finish(rollout.id, evaluation(1.0))
        assert all(rollout.id in ledger.durations for rollout in ledger.take(8 if step else 5))
    assert list(ledger.durations) == [0, 1, 2, *range(96, 160)]
    assert HISTORY > 10_000


def test_a_completion_without_a_program_has_ended_at_once_and_a_failure_of_ours_tells_nothing():
    ledger = RolloutLedger(8, 1)
    ledger.add(rollouts(4))
    ledger.observe(1, 2.0)
    ledger.finish(0, Evaluation(-10.0, outcome="no_code"))
    ledger.finish(1, Evaluation(None, outcome="infrastructure"))
    ledger.finish(3, Evaluation(0.9, duration_s=60.0, outcome="ok", reused=True))  # reused, so also done at once
    seconds, ended, _ = ledger.known_durations()
    assert (seconds.tolist(), ended.tolist()) == ([0, 0, 0], [True, False, True])
    ledger.finish(2, Evaluation(0.9, duration_s=60.0, outcome="ok", reused=True, waited_s=50.0))  # an equal one ran
    assert ledger.known_durations()[0].tolist() == [0, 50, 0]
    assert ledger.ran_s == 2.0  # the failure of ours kept a slot busy


def test_a_unit_has_the_duration_of_its_longest_member():
    ledger = RolloutLedger(12, 3)
    ledger.add(rollouts(12))
    for number, seconds in enumerate([1.0, 9.0, None, 2.0, 1.0]):  # one of the second unit still runs
        ledger.finish(number, evaluation(seconds))
    ledger.observe(5, 4.0)
    ledger.finish(6, evaluation(1.0))  # one of the third unit is a failure of ours
    ledger.observe(7, 30.0)
    ledger.finish(7, Evaluation(None, outcome="infrastructure"))
    ledger.finish(8, evaluation(3.0))
    for number in range(9, 12):  # and all of the fourth
        ledger.finish(number, Evaluation(None, outcome="infrastructure"))
    assert [rollout.id for rollout in ledger.take(3)] == [0, 1, 2]
    seconds, ended, trained = ledger.known_units("wine")
    assert (seconds.tolist(), ended.tolist(), trained.tolist()) == (
        [9, 4, 3],
        [True, False, True],
        [True, False, False],
    )
    assert [len(column) for column in ledger.known_units("iris")] == [0, 0, 0]
    nan = torch.nan
    durations = torch.tensor([1.0, 9.0, 0.0, 1.0, nan, 3.0, nan, nan, nan])
    torch.testing.assert_close(
        ledger.longest_of_unit(durations), torch.tensor([9.0] * 3 + [3, nan, 3] + [nan] * 3), equal_nan=True
    )


def test_inclusion_does_not_favour_the_groups_of_fast_programs():
    """
    Exact, by enumeration: one of three actions fails at once (0.6), one is fast (0.2) and one slow (0.2), with equal
    scores. Groups of four with a slow member are trained on half of the time. This must not push the policy from slow
    to fast.
    """
    seconds, scores, actions = [0.1, 2.0, 30.0], [-10.0, 0.8, 0.8], [0, 0, 0, 1, 2]
    groups = list(product(actions, repeat=4))
    trained = groups + [group for group in groups if 2 not in group]
    ledger = RolloutLedger(8 * len(groups), 4)
    ledger.add(rollouts(8 * len(groups)))
    missing = [group for group in groups if 2 in group]
    for number, action in enumerate(action for group in trained + missing for action in group):
        ledger.finish(number, evaluation(seconds[action]))
    ledger.take(4 * len(trained))

    taken = torch.tensor(trained)
    rewards, durations = torch.tensor(scores)[taken], torch.tensor(seconds)[taken].flatten()
    advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    direction = ((taken == 2).int() - (taken == 1).int()) / 0.2

    def push(weights):
        return (weights.view_as(advantages) * advantages * direction).sum().item()

    units = inclusion_weights(ledger.longest_of_unit(durations), *ledger.known_units("wine"))
    members = inclusion_weights(durations, *ledger.known_durations())
    assert push(torch.ones_like(durations)) / (2 * len(groups)) == pytest.approx(-1.09, abs=0.005)
    assert push(members) / len(trained) == pytest.approx(
        -0.31, abs=0.005
    )  # per sampled group, because weights have mean 1
    assert push(units) / len(trained) == pytest.approx(0, abs=1e-5)


def test_slow_programs_are_not_preferred_for_ever():
    """Nothing is dropped, so in the long run all have the same weight, however few programs are in flight."""
    rng, ledger, slots, now = random.Random(0), RolloutLedger(8, 1), 4, 0.0
    queue, running = [], []  # ids; end, start, id
    while ledger.sampled < 6000:
        while ledger.has_room(4):
            queue += [rollout.id for rollout in ledger.add(rollouts(4))]
        while not ledger.take(4):
            while queue and len(running) < slots:
                heapq.heappush(running, (now + (300.0 if rng.random() < 0.02 else 1.0), now, queue.pop(0)))
            now, began, number = heapq.heappop(running)
            ledger.finish(number, evaluation(now - began))
    for _, began, number in running:
        ledger.observe(number, now - began)
    weights = inclusion_weights(torch.tensor([1.0, 300.0]), *ledger.known_units("wine"))
    assert now > 10 * 300
    assert 1 <= weights[1] / weights[0] < 1.1


def test_of_many_competitions_the_durations_of_all_say_what_is_missing():
    """One group of each: alone, none would say that slow ones are missing, and all weights would be 1."""
    args = MLEGRPOConfig("unused", use_cpu=True, bf16=False, async_rollouts=True, objective="mean_rank")
    names = [f"task:train/{i}" for i in range(40)]
    ledger, sampled = RolloutLedger(1000, 1), rollouts(400)
    for number, rollout in enumerate(sampled):
        rollout.row["competition"] = names[number % 40]
    ledger.add(sampled)
    seconds = [1.0 if number % 2 else 9.0 for number in range(400)]
    for number in [*range(1, 400, 2), *range(0, 200, 2)]:  # all fast ones, then half of the slow ones, are trained on
        ledger.finish(number, evaluation(seconds[number]))
    taken = ledger.take(300)
    for number in range(200, 400, 2):
        ledger.finish(number, evaluation(seconds[number]))
    judged = [Judged(rollout.row["competition"], "scratch", None, None, rollout.evaluation) for rollout in taken[:64]]
    weights = Weighting(args, ledger).weights(judged)
    slow = torch.tensor([item.evaluation.duration_s == 9.0 for item in judged])
    torch.testing.assert_close(weights[slow] / weights[~slow], torch.full((32,), 2.0))


def test_without_competitions_all_durations_are_of_the_only_one():
    ledger, unnamed = RolloutLedger(8, 1), rollouts(8)
    for rollout in unnamed:
        del rollout.row["competition"]
    ledger.add(unnamed)
    assert len(ledger.known_units("wine")[0]) == 8
