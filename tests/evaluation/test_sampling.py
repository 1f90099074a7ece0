import json
from dataclasses import replace

import pytest
from support.fake_executor import CountingExecutor, ScriptedExecutor
from support.scripted_policy import ScriptedPolicy, fenced

from trl_mle.competitions import Score, load_competition
from trl_mle.evaluation import Harness, NoAnswerError, best_program, sample_programs
from trl_mle.evaluation.harness import sample_seeds
from trl_mle.evaluation.results import figures, scores
from trl_mle.execution import ExecutionResult, Limits, Outcome
from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards import Evaluation, MLEReward, ProgramLog


def valid(score, duration_s=1.0, milestones=MILESTONES):
    return Evaluation(score, duration_s, Score(score, True), "ok", milestones, source=f"# {score}")


SEED = 2**32 - 4  # the last that there are, and then from 0 on
SEEDS = sample_seeds(SEED, load_competition("wine"), range(10))
FAILED = Evaluation(-10.0, 3.0, None, "error")
PROSE = Evaluation(-10.0)
OURS = Evaluation(None, None, None, "infrastructure")


def held_out(value, held_out, full):
    return replace(valid(value), score=Score(value, True, None, held_out, full))


def test_summary_by_hand():
    evaluations = [valid(0.5), valid(0.7, 2.0, ("imports",)), FAILED, PROSE, OURS]
    row = figures("x", load_competition("wine"), evaluations)
    assert (row["num_samples"], row["num_valid"]) == (4, 2)  # our own failure is not counted
    assert (row["num_untrained"], row["num_failures_of_ours"]) == (1, 1)
    assert (row["valid_rate"], row["mean_score"], row["best_score"]) == (0.5, pytest.approx(0.6), 0.7)
    assert row["mean_duration_s"] == pytest.approx(2.0)  # prose has no duration


def test_where_nothing_is_known(wine):
    """No valid program, failures of ours alone, and no milestones, so that nobody knows who trained a model."""
    row = figures("x", wine, [FAILED, PROSE])
    assert (row["valid_rate"], row["mean_score"], row["best_score"]) == (0.0, None, None)
    row = figures("x", wine, [OURS, OURS])
    assert (row["num_samples"], row["valid_rate"], row["best_of_k"]) == (0, None, [])
    assert figures("x", wine, [valid(0.5, 1.0, ()), FAILED])["num_untrained"] is None


@pytest.mark.parametrize("sign", [1, -1])
def test_chosen_by_the_validation_rows_and_reported_on_the_held_out_ones(sign):
    triples = [(0.9, 0.2, 0.6), (0.7, 0.6, 0.65), (0.9, 0.4, 0.5)]
    evaluations = [FAILED, *(held_out(*(sign * score for score in three)) for three in triples), PROSE]
    summary = scores(evaluations, sign == 1, "validation")
    assert sign * summary["best_score"] == pytest.approx(0.3)  # two are equally good
    assert sign * summary["mean_score"] == pytest.approx(0.4)
    by_test = scores(evaluations, sign == 1, "test")
    assert sign * by_test["best_score"] == 0.65
    assert sign * by_test["mean_score"] == pytest.approx(1.75 / 3)
    competition = load_competition("wine" if sign == 1 else "diabetes")
    assert best_program(evaluations, competition) is evaluations[1]
    assert best_program([FAILED], competition) is None


def evaluate(policy, log, num_samples, executor):
    """Samples programs for wine in batches of four."""
    wine = load_competition("wine")
    limits = {"max_new_tokens": 8, "max_prompt_tokens": 1024, "limits": Limits()}
    harness = Harness(policy, wine, MLEReward([wine], executor), log, **limits, seed=SEED, batch_size=4)
    return sample_programs(harness, num_samples)


def program(prompt: str, seed: int) -> str:
    return fenced(f"print('program', {SEEDS.index(seed)})")


def test_an_interrupted_evaluation_goes_on_without_running_a_program_twice(executor, tmp_path):
    """Ten programs in batches of four, interrupted before the seventh is submitted: the fifth and sixth may be running."""
    path = tmp_path / "x.jsonl"
    counting = CountingExecutor(executor, limit=6)
    first = ScriptedPolicy(program)
    with pytest.raises(KeyboardInterrupt):
        evaluate(first, ProgramLog(path, {}), 10, counting)
    assert first.seeds == SEEDS[:8]
    recorded = path.read_text()
    done = [row["source"] for line in recorded.splitlines() if "source" in (row := json.loads(line))]
    assert done == counting.sources[:4]
    with path.open("a") as file:
        file.write('{"time": ')  # a line that was cut off

    again, rest = ScriptedPolicy(program), CountingExecutor(executor)
    evaluations = evaluate(again, ProgramLog(path, {}), 10, rest)
    assert again.seeds == SEEDS[8:]  # completions on disk are not sampled again
    assert rest.sources == [f"print('program', {i})" for i in range(4, 10)]
    assert [evaluation.source for evaluation in evaluations] == done + rest.sources
    assert [evaluation.output for evaluation in evaluations] == [f"program {i}" for i in range(10)]
    assert path.read_text().startswith(recorded)

    log = ProgramLog(path, {})
    third = evaluate(ScriptedPolicy(program), log, 10, CountingExecutor(executor, 0))
    assert third == evaluations  # all from the files


def test_no_two_samples_share_a_seed():
    """Neither of one competition, nor of two; and a competition's do not depend on the others."""
    tasks = [load_competition(name) for name in ("wine", "digits", "task:test/0", "task:test/1")]
    seeds = [sample_seeds(SEED, task, range(1000)) for task in tasks]
    assert len({seed for of_task in seeds for seed in of_task}) == 4000
    assert seeds[0][7:9] == sample_seeds(SEED, tasks[0], [7, 8])
    for other in (SEED + 1, SEED + 64):  # another run's
        assert not {*seeds[0]} & {*sample_seeds(other, tasks[0], range(1000))}


def test_what_an_endpoint_has_answered_is_kept(executor, tmp_path):
    path = tmp_path / "x.jsonl"
    half = ScriptedPolicy(lambda prompt, seed: program(prompt, seed) if SEEDS.index(seed) % 2 else None)
    with pytest.raises(NoAnswerError, match=rf"has not answered 2 of 4 prompts.*: 429 at {SEEDS[2]}$"):
        evaluate(half, ProgramLog(path, {}), 4, executor)
    whole = ScriptedPolicy(program)
    evaluate(whole, ProgramLog(path, {}), 4, executor)
    assert whole.seeds == [SEEDS[0], SEEDS[2]]


def test_a_failure_of_ours_is_tried_again_another_time(executor, tmp_path):
    log, full = ProgramLog(tmp_path / "x.jsonl", {}), ExecutionResult(Outcome.INFRASTRUCTURE, "the disk is full")
    evaluations = evaluate(ScriptedPolicy(program), log, 2, ScriptedExecutor(*[full] * 4))
    assert [evaluation.reward for evaluation in evaluations] == [None, None]
    assert "outcome" not in log.path.read_text()
    evaluations = evaluate(ScriptedPolicy(lambda prompt, seed: None), log, 2, executor)
    assert [evaluation.outcome for evaluation in evaluations] == ["ok", "ok"]
