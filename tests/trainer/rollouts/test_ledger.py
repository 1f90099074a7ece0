import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trl_mle.competitions import Score
from trl_mle.rewards import Evaluation
from trl_mle.trainer.rollouts.ledger import Rollout, RolloutLedger
from trl_mle.trainer.rollouts.sampler import generated


def rollouts(count):
    return [Rollout({"prompt": f"{i}"}, [1, 2], [3], "text", [-0.5], [-0.25]) for i in range(count)]


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
            added = ledger.add(rollouts(count), ledger.step)
            assert [rollout.id for rollout in added] == list(range(before, before + count))
        running = [rollout.id for rollout in ledger.unfinished]
        for number in rng.sample(running, rng.randrange(len(running) + 1)):
            ledger.finish(number, Evaluation(0.5, rng.choice([None, 0.1, 5.0]), Score(0.5, True), "ok", ("imports",)))
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
        assert len(set(trained)) == len(trained)
        assert sorted([*trained, *ledger.in_flight]) == list(range(ledger.sampled))
        if rng.random() < 0.2:
            restored = RolloutLedger(ledger.max_in_flight, group_size)
            restored.load_state_dict(json.loads(json.dumps(ledger.state_dict())))
            assert everything(restored) == everything(ledger)
            assert restored.in_flight == ledger.in_flight
            ledger = restored


def test_of_another_group_size_is_refused():
    with pytest.raises(ValueError, match="num_generations=4, not 1"):
        RolloutLedger(8, 1).load_state_dict(RolloutLedger(8, 4).state_dict())


def test_rollouts_of_a_run_without_vllm_have_a_ratio_of_1_with_it():
    """After a resume with vLLM, a batch may hold both, or only earlier ones: TRL subtracts what is returned from
    `policy_logps`."""
    by_vllm = Rollout({}, [1], [2, 3], "a", sampling_logps=[-1.5, None], policy_logps=[-1.0, -2.0])
    before = Rollout({}, [1], [4], "b", policy_logps=[-3.0])
    assert generated([by_vllm, before])[4] == [[-1.5, None], [-3.0]]
    assert generated([before])[4] == [[-3.0]]
    assert generated([Rollout({}, [1], [4], "b")])[4] is None  # trained on at once, without vLLM
