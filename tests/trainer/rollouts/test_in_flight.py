"""How much is sampled at once, and how much by a server while training continues."""

import json
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from trl_mle.execution import Outcome
from trl_mle.rewards import Evaluation
from trl_mle.rewards.progress import ProgramsProgress
from trl_mle.trainer.rollouts.in_flight import NoRollouts, RolloutsInFlight
from trl_mle.trainer.rollouts.ledger import Rollout, RolloutLedger


BATCH = 4


class Sampler:
    """Records calls in `said`; a server's samples arrive when they are received, or earlier if `is_fast`."""

    def __init__(self, is_server, is_fast=False):
        self.server = object() if is_server else None
        self.is_server, self.is_fast, self.said = is_server, is_fast, ""
        self.rows, self.step = [], 0

    def ask(self, rows, step):
        assert not self.rows
        self.rows, self.step, self.said = rows, step, self.said + "a"

    def has_arrived(self):
        return self.is_server and self.is_fast and bool(self.rows)

    def receive(self):
        rollouts = [Rollout(row, [1], [2], "pass") for row in self.rows]
        self.rows, self.said = [], self.said + "r"
        return rollouts

    def load(self, rows, step):
        self.rows, self.step = rows, step

    def whole_groups(self, groups):
        return groups

    def take_seconds(self):
        return {}


def earn_the_same(evaluations):
    return len({item.reward for item in evaluations}) == 1


class Reward:
    """Programs end at once and earn `rewards` in turn; the last one is repeated."""

    def __init__(self, rewards=(0.0,)):
        self.rewards = list(rewards)

    executor = SimpleNamespace(slots=1, reports_start=False)

    def progress(self, count):
        return ProgramsProgress(count, False)

    def items(self, completions, competitions):
        return completions

    def submit(self, items):
        return [self.pending(self.rewards.pop(0) if len(self.rewards) > 1 else self.rewards[0]) for _ in items]

    def pending(self, reward):
        done = Evaluation(reward, 0.1, None, Outcome.OK, (), "", "")
        return SimpleNamespace(poll=lambda: True, result=lambda: done, running_s=lambda: 0.1)


def no_more(groups):
    raise AssertionError(f"{groups} more groups were asked for")


def steps(sampler, batches, count=4, **limits):
    """The sampling in each step, and the ages of the rollouts trained on; checks at the end that no rollout is lost."""
    rollouts = RolloutsInFlight(RolloutLedger(batches * BATCH, BATCH, **limits), Reward(), sampler)
    for _ in range(count):
        sampler.said = ""
        rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
        in_fill, sampler.said = sampler.said, ""
        taken = rollouts.take(BATCH, no_more)
        assert len(rollouts.ledger.in_flight) + len(sampler.rows) <= rollouts.ledger.max_in_flight
        yield in_fill, sampler.said, {row["staleness"] for row in rollouts.rows(taken)}
    assert rollouts.ledger.trained == count * BATCH
    assert sum(rollouts.ledger.dropped) == 0


@pytest.mark.parametrize(
    ("is_server", "batches", "expected"),
    [
        # a: asked, r: received; the first step has more to fill
        (False, 1, [("ar", "", {0})] * 4),
        (False, 2, [("arar", "", {0})] + [("ar", "", {1})] * 3),
        (True, 1, [("ar", "", {0})] * 4),
        (True, 2, [("ara", "", {0})] + [("ra", "", {1})] * 3),  # r comes first: it was asked for in the step before
        (True, 3, [("arara", "", {0}), ("ra", "", {1})] + [("ra", "", {2})] * 2),
    ],
)
def test_what_is_sampled_when(is_server, batches, expected):
    assert list(steps(Sampler(is_server), batches)) == expected


def test_what_arrives_while_programs_run_is_taken_then():
    """Then its programs do not wait for the next step."""
    assert list(steps(Sampler(True, is_fast=True), 2)) == [("ara", "r", {0})] + [("a", "r", {1})] * 3


def test_nothing_is_asked_for_that_would_be_dropped():
    sampler = Sampler(True)
    [first, *later] = steps(sampler, 1, max_staleness=0)
    assert [first, *later] == [("ar", "", {0})] * 4


def test_the_program_of_a_stale_rollout_is_stopped():
    """Otherwise it would keep its slot, for a result that nobody needs."""
    reward, stopped = Reward(), []
    reward.stop = stopped.append
    rollouts = RolloutsInFlight(RolloutLedger(2 * BATCH, BATCH, max_staleness=0), reward, Sampler(False))
    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    endless = rollouts._pending[BATCH]
    endless.poll = lambda: False
    assert [rollout.id for rollout in rollouts.take(BATCH, no_more)] == list(range(BATCH))
    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    assert [rollout.id for rollout in rollouts.take(BATCH, no_more)] == list(range(2 * BATCH, 3 * BATCH))
    assert stopped == [endless]
    assert rollouts.metrics()["async/dropped/unfinished"] == 1


def test_programs_that_are_stopped_are_executed_again_if_training_goes_on():
    reward, stopped = Reward(), []
    reward.stop = stopped.append
    rollouts = RolloutsInFlight(RolloutLedger(2 * BATCH, BATCH), reward, Sampler(False))
    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    running = list(rollouts._pending.values())
    state = json.loads(json.dumps(rollouts.state_dict(), default=vars))
    rollouts.stop()
    assert stopped == running
    assert json.loads(json.dumps(rollouts.state_dict(), default=vars)) == state  # a checkpoint loses none
    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    assert [rollout.id for rollout in rollouts.take(BATCH, no_more)] == list(range(BATCH))
    assert rollouts.ledger.sampled == 2 * BATCH


def test_what_was_asked_for_is_in_a_checkpoint():
    sampler = Sampler(True)
    rollouts = RolloutsInFlight(RolloutLedger(2 * BATCH, BATCH), Reward(), sampler)
    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    rollouts.take(BATCH, no_more)
    state = rollouts.state_dict()
    assert state["asked"] == [{"prompt": "?"}] * BATCH

    resumed = Sampler(True)
    others = RolloutsInFlight(RolloutLedger(2 * BATCH, BATCH), Reward(), resumed)
    others.load_state_dict(state)
    others.fill(BATCH, lambda: [{"prompt": "another"}] * BATCH)
    assert resumed.said == "ra"  # it first receives the earlier request
    assert [rollout.row["prompt"] for rollout in others.ledger.in_flight.values()] == ["?"] * BATCH
    assert {rollout.step for rollout in others.ledger.in_flight.values()} == {
        1
    }  # sampled by the policy of the checkpoint
    assert resumed.rows == [{"prompt": "another"}] * BATCH


@pytest.mark.parametrize("is_server", [False, True])
@pytest.mark.parametrize(
    ("rewards", "allowed", "expected"),
    [
        # groups of two; ids of the groups trained on and of those skipped, and the number of extra generations
        ([1, 2, 3, 4], 2, ([0, 1], [], 0)),
        ([1, 1, 3, 4, 5, 6], 2, ([1, 2], [0], 1)),
        ([1, 1, 2, 2, 3, 3, 4, 5, 6, 7], 2, ([3, 4], [0, 1, 2], 2)),
        (
            [1, 1, 2, 2, 3, 3, 4, 5, 6, 7],
            1,
            ([0, 3], [1, 2], 1),
        ),  # no more generations: the first group to finish fills up
        ([1, 1], 3, ([0, 1], [2, 3, 4, 5, 6, 7], 3)),
    ],
)
def test_groups_without_signal_are_replaced(rewards, allowed, expected, is_server):
    sampler = Sampler(is_server)
    ledger = RolloutLedger(BATCH, 2, lacks_signal=earn_the_same)
    rollouts = RolloutsInFlight(ledger, Reward(rewards), sampler, extra_generations=allowed)
    asked = []

    def more(groups):
        asked.append(groups)
        return [{"prompt": "more"}] * (2 * groups)

    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    taken = rollouts.take(BATCH, more)
    trained, skipped, generations = expected
    assert [rollout.id // 2 for rollout in taken[::2]] == trained
    assert [rollout.id // 2 for rollout in rollouts.skipped[::2]] == skipped
    assert len(asked) == generations
    metrics = rollouts.metrics()
    assert (metrics["zero_signal/skipped"], metrics["zero_signal/generations"]) == (len(skipped), generations)
    assert not ledger.in_flight
    assert ledger.skipped == 2 * len(skipped)


class Slower(Reward):
    """Each program ends one poll later than the one before."""

    def submit(self, items):
        return [later(pending, looks) for looks, pending in enumerate(super().submit(items))]


def later(pending, looks):
    left = iter([False] * looks)
    pending.poll = lambda: next(left, True)
    pending.awaited = Future()
    pending.awaited.set_result(None)
    return pending


def test_synchronous_training_replaces_all_at_once():
    """Otherwise each group that ends would cost a generation, and their order would decide what is sampled."""
    ledger = RolloutLedger(BATCH, 2, lacks_signal=earn_the_same)
    rollouts = RolloutsInFlight(ledger, Slower([1, 1, 2, 2, 3, 4, 5, 6]), Sampler(False), extra_generations=1)
    asked = []
    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    taken = rollouts.take(BATCH, lambda groups: asked.append(groups) or [{"prompt": "more"}] * (2 * groups))
    assert asked == [2]
    assert [rollout.evaluation.reward for rollout in taken] == [3, 4, 5, 6]


def test_a_step_that_is_interrupted_can_be_resumed():
    """For example if a server fails while groups are replaced: the groups set aside are in the checkpoint."""
    batches = 2
    ledger = RolloutLedger(batches * BATCH, 2, lacks_signal=earn_the_same)
    rewards = [1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9]
    rollouts = RolloutsInFlight(ledger, Reward(rewards), Sampler(False), extra_generations=1)
    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)

    def fail(groups):
        raise ConnectionError

    with pytest.raises(ConnectionError):
        rollouts.take(3 * BATCH, fail)
    resumed = RolloutsInFlight(
        RolloutLedger(batches * BATCH, 2, lacks_signal=earn_the_same), Reward([10, 11]), Sampler(False), 1
    )
    resumed.load_state_dict(json.loads(json.dumps(rollouts.state_dict(), default=vars)))
    resumed.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    taken = resumed.take(BATCH, lambda groups: [{"prompt": "more"}] * (2 * groups))
    assert [rollout.evaluation.reward for rollout in taken[:2]] == [4, 5]
    assert len({rollout.id for rollout in taken}) == BATCH
    resumed.ledger.check([])


def test_with_one_batch_a_step_that_is_interrupted_begins_again():
    """Its rollouts have no log-probabilities for a later step, and the checkpoint's policy can sample them again."""
    ledger = RolloutLedger(BATCH, 2, lacks_signal=earn_the_same)
    rollouts = RolloutsInFlight(ledger, Reward([1, 1, 2, 3]), Sampler(True), 1, keeps_logps=False)
    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)

    def fail(groups):
        raise ConnectionError

    with pytest.raises(ConnectionError):
        rollouts.take(BATCH, fail)
    assert ledger.in_flight
    assert rollouts.state_dict() == {}


def test_rollouts_of_a_competition_that_was_left_out_are_named():
    reward = Reward()
    reward.competitions = {"wine": None}
    rollouts = RolloutsInFlight(RolloutLedger(2 * BATCH, BATCH), reward, Sampler(False))
    rollouts.fill(BATCH, lambda: [{"prompt": "?", "competition": "digits"}] * BATCH)
    rollouts.take(BATCH, no_more)
    with pytest.raises(ValueError, match=r"in flight of digits: resume with these among the competitions$"):
        rollouts.load_state_dict(json.loads(json.dumps(rollouts.state_dict(), default=vars)))


def test_nothing_of_synchronous_training_outlives_a_step():
    """But rollouts of another run may not get lost."""
    ledger = RolloutLedger(BATCH, 2)
    rollouts = RolloutsInFlight(ledger, Reward(), Sampler(False), is_async=False, keeps_logps=False)
    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    rollouts.take(BATCH, no_more)
    assert (rollouts.state_dict(), rollouts.metrics()) == ({}, {})
    other = RolloutsInFlight(RolloutLedger(2 * BATCH, BATCH), Reward(), Sampler(False))
    other.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    other.take(BATCH, no_more)
    for part in (rollouts, NoRollouts()):
        with pytest.raises(ValueError, match=r"not trained on yet: resume with async_rollouts$"):
            part.load_state_dict(other.state_dict())
    state, other.keeps_logps = other.state_dict(), False
    with pytest.raises(
        ValueError, match="has rollouts of earlier steps: resume with max_in_flight of more than one batch"
    ):
        other.load_state_dict(state)
