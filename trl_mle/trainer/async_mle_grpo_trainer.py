"""Asynchronous training: a step trains on the groups that finished first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trl_mle.trainer.batch import Batch, Row
from trl_mle.trainer.mle_grpo_trainer import MLEGRPOTrainer
from trl_mle.trainer.rollouts.in_flight import RolloutsInFlight
from trl_mle.trainer.rollouts.ledger import Rollout, RolloutLedger
from trl_mle.trainer.rollouts.sampler import Sampler, generated


@dataclass
class ReplayedBatch(Batch):
    """A batch of rollouts that were sampled before."""

    rollouts: Sequence[Rollout] = ()  # of this process
    logps_taken: bool = False  # whether their log-probabilities are in place

    def take_logps(self, width: int) -> torch.Tensor | None:
        """Returns, once, the rollouts' log-probabilities when they were sampled, padded to `width`, if there are
        any."""
        if self.logps_taken or self.rollouts[0].policy_logps is None:
            return None
        self.logps_taken = True
        # A token that vLLM knows no probability of (`None`) is as if it had been certain: its ratio is small
        rows = [torch.tensor([logp or 0.0 for logp in rollout.policy_logps or []]) for rollout in self.rollouts]
        return torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])


class AsyncMLEGRPOTrainer(MLEGRPOTrainer):
    """
    [`MLEGRPOTrainer`] whose steps train on the groups that finished first, whenever they were sampled, while slower
    programs keep running. Needs `args.async_rollouts` and an [`~trl_mle.rewards.MLEReward`]; takes the same arguments.
    """

    is_asynchronous = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.tools or self.environment_factories is not None or self.rollout_func is not None:
            raise ValueError("async_rollouts does not support tools, environments or rollout functions")
        if self.reward is None:
            raise ValueError("async_rollouts needs an MLEReward, which executes programs ahead")
        if self.reward.overrides("evaluations"):
            raise ValueError("async_rollouts calls the reward's `submit`: override that instead of `evaluations`")
        assert self.args.max_in_flight is not None  # MLEGRPOConfig has filled it in
        ledger = RolloutLedger(self.args.max_in_flight, self.args.group_size)
        sampler = Sampler(self, self.args.keeps_logps)
        self.rollouts = RolloutsInFlight(ledger, self.reward, sampler)
        self.saved["rollouts"] = self.rollouts

    def train(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().train(*args, **kwargs)
        finally:
            self.rollouts.stop()

    def _training_batch(self, inputs: list[Row]) -> dict[str, Any]:
        """Samples as many rollouts as may be in flight, and trains on those that finished first."""
        self.generation_batch = Batch()  # what is sampled now replays nothing
        count, local = self.args.completions_per_batch, self._local(len(inputs))
        self.rollouts.fill(count, lambda: self.solution_prompts.choose(inputs, local.start))
        taken = self.rollouts.take(count)[local]
        batch = ReplayedBatch(rollouts=taken)
        output = self._scored(self.rollouts.rows(taken), batch)
        stored = batch.take_logps(output["completion_ids"].shape[1])
        if stored is not None:  # TRL did not compute them, because it considers the rollouts fresh
            output["old_per_token_logps"] = stored.to(self.accelerator.device)
        return output

    def _generate(self, prompts: list) -> tuple:
        if isinstance(self.generation_batch, ReplayedBatch):
            return generated(self.generation_batch.rollouts)
        return super()._generate(prompts)

    def _get_per_token_logps_and_entropies(self, model: Any, *inputs: Any, **kwargs: Any) -> tuple:
        # TRL considers the samples fresh: it gets the log-probabilities of the policy that sampled
        if isinstance(self.generation_batch, ReplayedBatch) and self.args.trl_asks_for_old_logps:
            stored = self.generation_batch.take_logps(inputs[2])  # as many tokens as TRL asks for
            if stored is not None:
                return stored.to(self.accelerator.device), None, None
        return super()._get_per_token_logps_and_entropies(model, *inputs, **kwargs)

    def _evaluated(self, inputs: list[Row], completions: list) -> list[Row]:
        return inputs if isinstance(self.generation_batch, ReplayedBatch) else super()._evaluated(inputs, completions)

    def _calculate_rewards(
        self, inputs: list[Row], prompts: list, completions: list, completion_ids_list: list
    ) -> torch.Tensor:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        for name in ("rollout_id", "staleness"):
            self._log_completion_extra(name, [row.get(name) for row in inputs])
        if self.model.training:
            self._log_metrics("train", self.rollouts.metrics())
        return rewards
