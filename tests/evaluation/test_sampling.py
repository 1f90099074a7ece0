import json

import pytest

from trl_mle.competitions import Score
from trl_mle.evaluation import (
    Policy,
    best_evaluation,
    count_executed,
    plot_learning_curves,
    save_evaluations,
    summarize,
)
from trl_mle.rewards import Evaluation


def valid(score: float, duration_s: float = 1.0) -> Evaluation:
    return Evaluation(score, duration_s, Score(score, True), "ok", source=f"# {score}")


FAILED = Evaluation(-10.0, 3.0, None, "error")
PROSE = Evaluation(-10.0)
OURS = Evaluation(None, None, None, "infrastructure")


def test_summary_by_hand():
    summary = summarize([valid(0.5), valid(0.7, 2.0), FAILED, PROSE, OURS], higher_is_better=True)
    assert (summary.num_samples, summary.num_valid) == (4, 2)  # our own failure is not counted
    assert summary.valid_rate == 0.5
    assert summary.mean_score == pytest.approx(0.6)
    assert summary.best_score == 0.7
    assert summary.mean_duration_s == pytest.approx(2.0)  # prose has no duration


def test_summary_without_any_valid_program():
    summary = summarize([FAILED, PROSE], higher_is_better=True)
    assert (summary.valid_rate, summary.mean_score, summary.best_score) == (0.0, None, None)


def test_best_follows_the_direction():
    evaluations = [FAILED, valid(0.5), valid(0.7), PROSE]
    assert best_evaluation(evaluations, higher_is_better=True) == valid(0.7)
    assert best_evaluation(evaluations, higher_is_better=False) == valid(0.5)
    assert summarize(evaluations, higher_is_better=False).best_score == 0.5
    assert best_evaluation([FAILED], higher_is_better=True) is None


def test_a_completion_without_a_program_is_not_executed():
    assert count_executed([valid(0.5), PROSE, OURS]) == 1


def test_a_policy_samples_prompts_of_any_length_side_by_side(tiny_model):
    """A shorter prompt is padded on the left, which changes nothing: from a peaked distribution the same is sampled."""
    prompts = [[{"role": "user", "content": text}] for text in ("Write.", "Write a program for the competition. " * 5)]
    policy = Policy(tiny_model, seed=0)
    assert policy.count_tokens(prompts[0]) < policy.count_tokens(prompts[1])
    policy.model.lm_head.weight.data *= 1e4
    together = policy.sample(prompts, max_new_tokens=8)
    assert together == [policy.sample([prompt], max_new_tokens=8)[0] for prompt in prompts]
    assert together == policy.sample(prompts, max_new_tokens=8, batch_size=1)
    assert policy.sample([], max_new_tokens=8) == []


def test_a_seed_fixes_the_samples(tiny_model):
    prompt = [{"role": "user", "content": "Write."}]
    first, again, other = (Policy(tiny_model, seed).sample([prompt] * 4, max_new_tokens=8) for seed in (0, 0, 1))
    assert first == again != other
    assert len(set(first)) > 1


def test_evaluations_are_json_lines(tmp_path):
    save_evaluations([valid(0.5), FAILED], tmp_path / "x.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [row["outcome"] for row in rows] == ["ok", "error"]
    assert rows[0]["score"] == {"value": 0.5, "valid": True, "error": None}


def test_learning_curves_are_drawn_from_the_trainers_log(tmp_path):
    history = [
        {"step": step, "reward": -9.0 + step, "mle/valid_rate": step / 10, "mle/duration_s/p50": 0.1}
        | ({"mle/score/mean": 0.5, "mle/score/best": 0.4} if step else {})  # no valid program in the first step
        for step in range(3)
    ]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    plot_learning_curves(tmp_path / "trainer_state.json", tmp_path / "curves.png", "digits")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
