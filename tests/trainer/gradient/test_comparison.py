import math
from types import SimpleNamespace

import pytest
import torch
from support.toy_trainer import make_trainer, text_reward

from trl_mle.rewards import Evaluation
from trl_mle.trainer.advantages import group_advantages, standardized
from trl_mle.trainer.batch import Completion
from trl_mle.trainer.gradient.comparison import Comparison
from trl_mle.trainer.gradient.objectives import progress_of


NAN = math.nan


def settings(objective="max_at_k", k=2):
    return SimpleNamespace(objective=objective, max_at_k=k if objective == "max_at_k" else None, group_size=4)


def rows_of(qualities, programs=(None,) * 16):
    qualities = [None if math.isnan(quality) else quality for quality in qualities]
    evaluations = [Evaluation(None, quality=value, source=programs[i]) for i, value in enumerate(qualities)]
    return [Completion(None, "scratch", None, None, evaluation) for evaluation in evaluations]


@pytest.mark.parametrize("objective", ["mean_rank", "max_at_k"])
def test_equal_programs_are_alike(objective):
    """Luck in the score does not distinguish copies of a program."""
    comparison = Comparison(settings(objective), [text_reward], torch.ones(1))
    rows = rows_of([0.1, 0.9, 0.5, NAN], programs=["x", "x  # again", "y", "z"])
    advantages = comparison.advantages(rows, torch.zeros(4, 1))
    assert advantages[0] == advantages[1]


def test_progress_lies_above_all_failures():
    quality = torch.tensor([NAN, 0.5, NAN, 0.9, 0.1])
    rewards = torch.tensor([-10.0, 0.5, -9.7, NAN, 0.1])
    assert progress_of(rewards, quality).tolist()[:3] == pytest.approx([-10, -7, -9.7])
    assert progress_of(rewards, quality)[3].isnan()
    assert progress_of(rewards, quality)[4] == -7
    rewards = torch.tensor([0.0, 0.5, 5.0])  # failures of other reward functions may be close to scores
    assert progress_of(rewards, torch.tensor([NAN, 0.2, NAN]))[1] == pytest.approx(5.3)
    assert progress_of(rewards[1:2], quality[1:2]).tolist() == [0]


def test_groups_and_other_reward_functions():
    """The paper's reward has two parts; other rewards are standardised and added, however large they are."""
    qualities = [0.8, 0.9, NAN, NAN, 0.1, NAN, 0.3, 0.2]
    judged = torch.tensor([0.8, 0.9, -10, -9.8, 0.1, NAN, 0.3, 0.2], dtype=torch.float64)
    other = torch.tensor([300.0, 100, NAN, 200, 5, NAN, 5, 5], dtype=torch.float64)
    comparison = Comparison(settings(), [text_reward, text_reward], torch.tensor([2.0, 0.5]))
    rows = rows_of(qualities)
    advantages = comparison.advantages(rows, torch.stack([judged, other], dim=1))
    quality = torch.tensor(qualities, dtype=torch.float64)
    expected = torch.zeros(8, dtype=torch.float64)
    for group in ([0, 1, 2, 3], [4, 6, 7]):
        expected[group] = 2 * group_advantages(progress_of(judged[group], quality[group]), quality[group], 2)
    expected[[0, 1, 3]] += 0.5 * standardized(other[[0, 1, 3]])
    torch.testing.assert_close(advantages, expected)
    assert comparison.metrics() == {"no_quality_rate": 0}


def test_groups_without_a_quality_part_are_counted():
    comparison = Comparison(settings(), [text_reward], torch.ones(1))
    rows = rows_of([0.5, 0.5, NAN, NAN] + [NAN] * 4 + [0.5, NAN, NAN, NAN] + [0.1, 0.2, NAN, NAN])
    comparison.advantages(rows, torch.zeros(16, 1))
    assert comparison.metrics() == {"no_quality_rate": 0.75}  # all but the last


def scored(completions, log_extra, **kwargs):
    """Any reward function may log the quality of a completion."""
    rewards = text_reward(completions)
    log_extra("quality", [reward if reward > 0.3 else None for reward in rewards])
    return rewards


def test_any_reward_function_may_log_quality(tiny_model, tmp_path):
    trainer = make_trainer(tiny_model, tmp_path, scored, objective="mean_rank", max_steps=2)
    trainer.train()
    expected = []
    for group in torch.tensor(list(trainer._logs["rewards"]["scored"]), dtype=torch.float64).split(4):
        quality = torch.where(group > 0.3, group, NAN)
        expected.append(group_advantages(progress_of(group, quality), quality))
    assert list(trainer._logs["advantages"]) == pytest.approx(torch.cat(expected).tolist(), abs=1e-5)
    assert any("mle/no_quality_rate" in entry for entry in trainer.state.log_history)


class Proportional:
    """An objective of a user's: valid programs earn in proportion to their quality."""

    def __init__(self, args):
        self.scale = args.group_size

    def advantages(self, group):
        quality = group.quality.nan_to_num(nan=0.0)
        return self.scale * (quality - quality.mean())


def test_an_objective_of_ones_own(tiny_model, tmp_path):
    """It is found by its dotted name, and whatever concerns all objectives applies to it."""
    name = f"{__name__}.Proportional"
    trainer = make_trainer(tiny_model, tmp_path, scored, objective=name, max_steps=1)
    assert trainer.args.duration_weighting == "none"  # as for all objectives but the paper's
    trainer.train()
    rewards = torch.tensor(list(trainer._logs["rewards"]["scored"]), dtype=torch.float64)
    quality = torch.where(rewards > 0.35, rewards, 0.0).view(-1, 4)
    expected = 4 * (quality - quality.mean(dim=1, keepdim=True))
    assert list(trainer._logs["advantages"]) == pytest.approx(expected.flatten().tolist(), abs=1e-5)


def test_a_wrong_objective_of_ones_own(monkeypatch):
    """NaN, as of the quality of failed programs, would destroy the weights."""
    comparison = Comparison(settings(f"{__name__}.Proportional"), [text_reward], torch.ones(1))
    monkeypatch.setattr(comparison.objective, "advantages", lambda group: group.quality)
    with pytest.raises(ValueError, match="Proportional must give 4 finite advantages, not"):
        comparison.advantages(rows_of([0.5, NAN, 0.6, NAN]), torch.tensor([[0.5], [-10], [0.6], [-10]]))
    with pytest.raises(ValueError, match="is not a class with a method"):
        Comparison(settings(f"{__name__}.scored"), [text_reward], torch.ones(1))
