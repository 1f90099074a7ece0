"""How much is sampled at once, and how much by a server while training continues."""

from types import SimpleNamespace

from trl_mle.execution import Outcome
from trl_mle.rewards import Evaluation
from trl_mle.rewards.progress import ProgramsProgress
from trl_mle.trainer.rollouts.in_flight import RolloutsInFlight
from trl_mle.trainer.rollouts.ledger import Rollout, RolloutLedger


BATCH = 4


class Sampler:
    """Records calls in `said`; a server's samples arrive when they are received, or earlier if `is_fast`."""

    def __init__(self, is_server, is_fast=False):
        self.server = object() if is_server else None
        self.is_server, self.is_fast, self.said = is_server, is_fast, ""
        self.rows, self.step, self.keeps_logps = [], 0, True

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


class Reward:
    """Programs end at once."""

    def progress(self, count):
        return ProgramsProgress(count, False)

    def items(self, completions, competitions):
        return completions

    def submit(self, items):
        done = Evaluation(0.0, 0.1, None, Outcome.OK, (), "", "")
        return [SimpleNamespace(poll=lambda: True, result=lambda: done, running_s=lambda: 0.1) for _ in items]


def steps(sampler, batches, count=4):
    """The sampling in each step, and the ages of the rollouts trained on; checks at the end that no rollout is
    lost."""
    rollouts = RolloutsInFlight(RolloutLedger(batches * BATCH, BATCH), Reward(), sampler)
    for _ in range(count):
        sampler.said = ""
        rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
        in_fill, sampler.said = sampler.said, ""
        taken = rollouts.take(BATCH)
        assert len(rollouts.ledger.in_flight) + len(sampler.rows) <= rollouts.ledger.max_in_flight
        yield in_fill, sampler.said, {row["staleness"] for row in rollouts.rows(taken)}
    assert rollouts.ledger.sampled == count * BATCH + len(rollouts.ledger.in_flight)


def test_what_is_sampled_when():
    """a: asked, r: received. The first step has more to fill; a server may then answer for the next one."""
    assert list(steps(Sampler(False), 2)) == [("arar", "", {0})] + [("ar", "", {1})] * 3
    assert list(steps(Sampler(True), 2)) == [("ara", "", {0})] + [("ra", "", {1})] * 3
    assert list(steps(Sampler(True), 3)) == [("arara", "", {0}), ("ra", "", {1})] + [("ra", "", {2})] * 2
    # What arrives while programs run is taken then, so that its programs do not wait for the next step
    assert list(steps(Sampler(True, is_fast=True), 2)) == [("ara", "r", {0})] + [("a", "r", {1})] * 3


def test_what_was_asked_for_is_in_a_checkpoint():
    sampler = Sampler(True)
    rollouts = RolloutsInFlight(RolloutLedger(2 * BATCH, BATCH), Reward(), sampler)
    rollouts.fill(BATCH, lambda: [{"prompt": "?"}] * BATCH)
    rollouts.take(BATCH)
    state = rollouts.state_dict()
    assert state["asked"] == [{"prompt": "?"}] * BATCH

    resumed = Sampler(True)
    others = RolloutsInFlight(RolloutLedger(2 * BATCH, BATCH), Reward(), resumed)
    others.load_state_dict(state)
    others.fill(BATCH, lambda: [{"prompt": "another"}] * BATCH)
    assert resumed.said == "ra"  # it first receives the earlier request
    assert [rollout.row["prompt"] for rollout in others.ledger.in_flight.values()] == ["?"] * BATCH
    # Sampled by the policy of the checkpoint
    assert {rollout.step for rollout in others.ledger.in_flight.values()} == {1}
    assert resumed.rows == [{"prompt": "another"}] * BATCH
