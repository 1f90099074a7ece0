"""What TRL gets of completions that were sampled before."""

from trl_mle.trainer.rollouts.ledger import Rollout
from trl_mle.trainer.rollouts.sampler import generated


def test_rollouts_of_a_run_without_vllm_have_a_ratio_of_1_with_it():
    """After a resume with vLLM, a batch may hold both, or only earlier ones: TRL subtracts what is returned from
    `policy_logps`."""
    by_vllm = Rollout({}, [1], [2, 3], "a", sampling_logps=[-1.5, None], policy_logps=[-1.0, -2.0])
    before = Rollout({}, [1], [4], "b", policy_logps=[-3.0])
    assert generated([by_vllm, before])[4] == [[-1.5, None], [-3.0]]
    assert generated([before])[4] == [[-3.0]]
    assert generated([Rollout({}, [1], [4], "b")])[4] is None  # trained on at once, without vLLM
