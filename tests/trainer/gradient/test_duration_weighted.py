"""Duration weights for a trainer that is not GRPO."""

import torch
from datasets import Dataset
from support.on_cpu import ON_CPU
from support.toy_trainer import PROMPTS, timed_reward
from trl import RLOOConfig, RLOOTrainer

from trl_mle.trainer import DurationWeighted, duration_weights


class Remembering(RLOOTrainer):
    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        self.seen = output["advantages"].clone()
        return output


class Weighted(DurationWeighted, Remembering):
    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        self.weighted = output["advantages"].clone()
        return output


def trained(model, folder, cls, reward=timed_reward):
    prompts = [PROMPTS[i % 2] for i in range(8)]
    dataset = Dataset.from_dict({"prompt": prompts, "competition": ["ab"[i % 2] for i in range(8)]})
    options = {"per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 8, "max_steps": 1}
    args = RLOOConfig(str(folder), **(ON_CPU | options | {"shuffle_dataset": False, "learning_rate": 1e-2}))
    trainer = cls(model, reward, args=args, train_dataset=dataset)
    trainer.train()
    return trainer


class Unweighted(Weighted):
    duration_weighting = "none"


def test_advantages_are_those_of_the_trainer_times_the_weights(tiny_model, tmp_path):
    trainer = trained(tiny_model, tmp_path / "weighted", Weighted)
    seconds = torch.tensor([float(value or torch.nan) for value in trainer._logs["extra"]["duration_s"]])
    weights = torch.cat([duration_weights(seconds[:4]), duration_weights(seconds[4:])])  # one competition each
    torch.testing.assert_close(torch.tensor(list(trainer._logs["extra"]["duration_weight"])), weights)
    assert weights.unique().numel() > 2
    torch.testing.assert_close(trainer.weighted, trainer.seen * weights)
    stock = trained(tiny_model, tmp_path / "stock", Remembering)
    torch.testing.assert_close(stock.seen, trainer.seen)
    parameters = [torch.cat([p.flatten() for p in t.model.parameters()]) for t in (stock, trainer)]
    assert not torch.equal(*parameters)
    without = trained(tiny_model, tmp_path / "none", Unweighted)
    assert torch.equal(parameters[0], torch.cat([p.flatten() for p in without.model.parameters()]))
