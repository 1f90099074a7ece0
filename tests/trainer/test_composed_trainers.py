"""Other trainers that change one method of GRPO can be combined with ours."""

import torch
from support.toy_trainer import ComposedPerToken, make_trainer, trained_weights
from trl.experimental.gmpo import GMPOTrainer

from trl_mle.trainer import MLEGRPOTrainer


class Composed(MLEGRPOTrainer, GMPOTrainer):
    pass


def equal(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_another_loss(tiny_model, tmp_path):
    options = {"max_steps": 2}
    stock = trained_weights(tiny_model, tmp_path / "stock", cls=GMPOTrainer, **options)
    composed = {
        method: trained_weights(tiny_model, tmp_path / method, cls=Composed, duration_weighting=method, **options)
        for method in ("none", "linear")
    }
    assert equal(composed["none"], stock)
    assert not equal(composed["linear"], stock)
    assert not equal(composed["linear"], trained_weights(tiny_model, tmp_path / "grpo", **options))


def test_an_advantage_for_each_token(tiny_model, tmp_path):
    trainers = []
    for name, cls in {"tokens": ComposedPerToken, "completions": MLEGRPOTrainer}.items():
        trainers.append(make_trainer(tiny_model, tmp_path / name, cls=cls, max_steps=2))
        trainers[-1].train()
    per_token, per_completion = trainers
    for one, other in zip(per_token.model.parameters(), per_completion.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    tables = [torch.tensor(list(trainer._logs["extra"]["weighted_advantage"])) for trainer in trainers]
    torch.testing.assert_close(*tables)
    assert (tables[0] != torch.tensor(list(per_token._logs["advantages"]))).any()
