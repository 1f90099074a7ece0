"""The prompts of groups, the rewards of their completions, and what is logged about both."""

import random
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from datasets import Dataset
from support import pool_runs
from support.on_cpu import ON_CPU
from support.pool_runs import GROUP_SIZE, GROUPS, ReplayTrainer

from trl_mle.competitions import Score, TaskSet, load_competition
from trl_mle.execution import Limits
from trl_mle.prompts import extract_code, scratch_prompt
from trl_mle.rewards import Evaluation
from trl_mle.solutions.pool import Solution
from trl_mle.trainer import MLEGRPOConfig
from trl_mle.trainer.asking.solution_prompts import SolutionPrompts
from trl_mle.trainer.batch import SCRATCH, Completion


ROWS = GROUPS * GROUP_SIZE
FROM_SCRATCH = [{"role": "user", "content": "from scratch"}]


def make_trainer(model, folder, **config):
    return pool_runs.make_trainer(model, folder, ReplayTrainer, **({"max_steps": 3} | config))


@pytest.fixture(scope="module")
def trainer(program_model, tmp_path_factory):
    """A trainer that does not train and only chooses prompts."""
    return make_trainer(program_model, tmp_path_factory.mktemp("prompts"))


def choose(trainer, generations, seed=42, groups=10):
    """The prompts chosen for many groups; the pool does not change."""
    trainer.args.seed = seed
    rows = [
        {"prompt": FROM_SCRATCH, "competition": ("wine", "diabetes")[i // GROUP_SIZE % 2]} | SCRATCH
        for i in range(groups * GROUP_SIZE)
    ]
    chosen = []
    for _ in range(generations):
        chosen += trainer.solution_prompts.choose(rows, first=0)
    trainer.solution_prompts.generation = 0
    return chosen


def fill(pool):
    pool.observe(Solution("wine", f"x = {i}", f"out {i}", i / 10, step=i) for i in range(5))


def test_before_the_first_solution_all_groups_start_from_scratch(trainer):
    trainer.solution_prompts.pool.load_state_dict({})
    for example in choose(trainer, 20):
        assert (example["prompt_kind"], example["parent_id"], example["prompt"]) == ("scratch", None, FROM_SCRATCH)


def test_groups_are_asked_as_often_as_configured(trainer):
    fill(trainer.solution_prompts.pool)
    chosen = choose(trainer, 200)
    groups = chosen[::GROUP_SIZE]
    for i, example in enumerate(chosen):
        assert example == groups[i // GROUP_SIZE]
    kinds = {
        name: Counter(g["prompt_kind"] for g in groups if g["competition"] == name) for name in ("wine", "diabetes")
    }
    assert abs(kinds["wine"]["improve"] / 1000 - 0.6) < 4 * (0.24 / 1000) ** 0.5
    assert kinds["diabetes"]["improve"] == 0  # the pool has none
    parents = Counter(g["parent_id"] for g in groups if g["prompt_kind"] == "improve")
    assert len(parents) == 5


def test_with_ideas_a_variation_of_a_good_one_is_asked_for():
    """The best program's idea is varied most often. Where no solution has an idea with a number, the row stays as it is."""
    tasks = TaskSet(["wine"])
    args = MLEGRPOConfig("out", **ON_CPU, ideas="default", improve_probability=0.5, num_generations=2)
    args.per_device_train_batch_size = 2
    prompts = SolutionPrompts(tasks, args, Limits(), lambda prompt: 0)
    rows = [{"prompt": FROM_SCRATCH, "competition": "wine", "idea": "a forest"} | SCRATCH] * 400
    prompts.pool.observe([Solution("wine", "x = 0", "", 1.0, step=1, idea="GaussianNB()")])
    assert prompts.choose(rows, first=0) == rows
    ideas = "RandomForestClassifier(n_estimators=300)", "ExtraTreesClassifier(n_estimators=900)"
    prompts.pool.observe(Solution("wine", f"x = {i}", "", i / 2, step=1, idea=idea) for i, idea in enumerate(ideas, 1))
    chosen = prompts.choose(rows, first=0)
    groups = chosen[:: args.group_size]
    assert all(row == groups[i // args.group_size] for i, row in enumerate(chosen))
    varied = [row for row in groups if row["prompt_kind"] == "improve"]
    assert 60 < len(varied) < 140  # of 200
    assert {row["parent_score"] for row in varied} == {0.5, 1.0}
    for row in varied:
        assert row["idea"] not in ideas
        assert f"# Fit {row['idea']} to X_train" in row["prompt"][-1]["content"]
    best = [row for row in varied if row["parent_score"] == 1.0]
    assert all(row["idea"].startswith("ExtraTrees") for row in best)
    assert len(best) > len(varied) / 2


def test_the_same_program_in_two_competitions_asks_for_each(trainer):
    trainer.solution_prompts.pool.load_state_dict({})
    trainer.solution_prompts.pool.observe(Solution(name, "x = 1", "out", 0.5, step=0) for name in ("wine", "diabetes"))
    improve = [example for example in choose(trainer, 5) if example["prompt_kind"] == "improve"]
    assert {example["competition"] for example in improve} == {"wine", "diabetes"}
    for example in improve:
        assert example["prompt"][0]["content"].startswith(f"Kaggle competition: {example['competition']}\n")


def test_prompts_that_are_texts_are_refused(trainer):
    with pytest.raises(ValueError, match=r"the dataset.s prompts are texts, .* set improve_probability to 0$"):
        trainer.solution_prompts.choose([{"prompt": "text", "competition": "wine"}] * GROUP_SIZE, first=0)


def test_the_choice_is_a_function_of_the_seed(trainer):
    fill(trainer.solution_prompts.pool)
    first = choose(trainer, 5)
    random.seed(7)
    assert choose(trainer, 5) == first
    assert choose(trainer, 5, seed=43) != first


def test_scores_on_other_rows_are_not_resumed(trainer):
    prompts = trainer.solution_prompts
    state = prompts.state_dict()
    with pytest.raises(
        ValueError, match=r"scores of wine are on the rows that holdout 0.5 leaves: resume with that holdout, not 0"
    ):
        prompts.load_state_dict(state | {"holdout": {"wine": 0.5}})
    prompts.load_state_dict(state | {"holdout": {"wine": 0.0}})  # diabetes was not trained on
    prompts.competitions = TaskSet(["wine"], holdout=0.5)
    try:
        with pytest.raises(ValueError, match=r"holdout 0 leaves: resume with that holdout, not 0\.5"):
            prompts.load_state_dict(state)
    finally:
        prompts.competitions = trainer.competitions


@pytest.mark.parametrize("show", [False, True])
def test_prompts_show_program_and_output_and_the_score_only_if_asked_to(trainer, show):
    trainer.args.show_test_score = show
    prompt = trainer.solution_prompts.prompt_with(Solution("wine", "x = 1", "validation 0.5", 0.87654, step=0))[0][
        "content"
    ]
    trainer.args.show_test_score = False
    assert "```python\nx = 1\n```" in prompt
    assert "validation 0.5" in prompt
    assert ("0.87654" in prompt) is show


def test_a_limit_that_is_too_small_is_refused_at_once(program_model, tmp_path, monkeypatch):
    short = [{"role": "user", "content": "Kaggle competition: wine"}]
    monkeypatch.setattr("trl_mle.trainer.asking.dataset.scratch_prompt", lambda comp, limits, begin_program: short)
    with pytest.raises(ValueError, match=r"asks to improve .* max_prompt_length=60: raise it, or disable"):
        make_trainer(program_model, tmp_path, max_prompt_length=60)
    make_trainer(program_model, tmp_path, max_prompt_length=60, improve_probability=0.0)


@pytest.fixture(scope="module")
def logged(program_model, tmp_path_factory):
    """Metrics and tables of completions of each generation."""
    folder = tmp_path_factory.mktemp("logged")
    trainer = make_trainer(
        program_model,
        folder,
        competitions=["diabetes"],
        learning_rate=0.0,
        log_completions=True,
        num_completions_to_print=0,
    )
    trainer.train()
    tables = [pd.read_parquet(path) for path in sorted((Path(folder) / "completions").glob("*.parquet"))]
    return trainer, [entry for entry in trainer.state.log_history if "loss" in entry], tables


def parents_scores(trainer):
    found = trainer.solution_prompts.pool.state_dict()["diabetes"]
    return {Solution(**entry).id: entry["score"] for entry in found if entry["score"] is not None}


def test_the_table_says_what_each_completion_was_asked(logged):
    trainer, _, tables = logged
    for turn, table in zip(trainer.turns, tables, strict=True):
        assert list(table["prompt_kind"]) == turn["kinds"]
        assert table["parent_id"][table["prompt_kind"] == "scratch"].isna().all()
        known = table["parent_id"][table["prompt_kind"] == "improve"]
        assert set(known) <= set(parents_scores(trainer))
    assert {kind for turn in trainer.turns for kind in turn["kinds"]} == {"scratch", "improve"}


def test_a_solution_has_the_step_of_the_metrics_that_count_it(logged):
    trainer, history, tables = logged
    written = {
        entry["step"]: {extract_code(completion[-1]["content"]) for completion in table["completion"]}
        for entry, table in zip(history, tables, strict=True)
    }
    entries = trainer.solution_prompts.pool.state_dict()["diabetes"]
    assert min(entry["step"] for entry in entries) == 1
    assert all(entry["source"] in written[entry["step"]] for entry in entries)


def test_metrics_by_kind_and_how_often_a_parent_is_beaten(logged):
    trainer, history, tables = logged
    scores = parents_scores(trainer)
    rates = []
    for entry, table in zip(history, tables, strict=True):
        judged = table[table["outcome"] != "infrastructure"]
        for kind in ("scratch", "improve"):
            rows = judged[judged["prompt_kind"] == kind]
            if len(rows) == 0:
                assert f"mle/{kind}/valid_rate" not in entry
                continue
            assert entry[f"mle/{kind}/valid_rate"] == pytest.approx(rows["valid"].mean())
            valid = rows["score"][rows["valid"]].astype(float)
            if len(valid):
                assert entry[f"mle/{kind}/score/mean"] == pytest.approx(valid.mean())
                assert entry[f"mle/{kind}/score/best"] == pytest.approx(
                    valid.min()
                )  # a regression's error: lower is better
        improve = judged[judged["prompt_kind"] == "improve"]
        beats = [
            bool(v) and s < scores[p]
            for v, s, p in zip(improve["valid"], improve["score"], improve["parent_id"], strict=True)
        ]
        assert ("mle/improve/beats_parent_rate" in entry) is bool(beats)
        if beats:
            assert entry["mle/improve/beats_parent_rate"] == pytest.approx(sum(beats) / len(beats))
            rates.append(sum(beats) / len(beats))
        scratch = judged[judged["prompt_kind"] == "scratch"]
        shown = improve["parent_id"].map(scores)
        assert ("mle/improve/beats_parent_chance" in entry) is bool(len(scratch) and len(improve))
        if len(scratch) and len(improve):
            errors = scratch["score"].astype(float).where(scratch["valid"], float("inf"))
            chance = sum((errors < score).mean() for score in shown) / len(shown)
            assert entry["mle/improve/beats_parent_chance"] == pytest.approx(chance)
    assert rates
    assert max(rates) > 0
    assert history[-1]["mle/pool/size"] == len(scores)


@pytest.mark.parametrize(("options", "kept"), [({"improve_probability": 0.0}, 0), ({}, 1)])
def test_solutions_that_no_prompt_shows_are_not_kept(options, kept, tmp_path):
    args = MLEGRPOConfig(str(tmp_path), **ON_CPU, **options)
    prompts = SolutionPrompts(TaskSet(["wine"]), args, Limits(), len)
    valid = Evaluation(0.5, score=Score(0.5, valid=True), outcome="ok", source="x = 1")
    prompts.observe([Completion("wine", "scratch", None, None, valid)], step=1)
    assert len(prompts.pool.ranked("wine")) == kept
    assert prompts.metrics() == ({"pool/size": 1.0} if kept else {})


def test_evaluation_is_from_scratch_and_leaves_the_pool_alone(program_model, tmp_path):
    prompt = scratch_prompt(load_competition("wine"))
    trainer = make_trainer(program_model, tmp_path, improve_probability=1.0, per_device_eval_batch_size=4)
    fill(trainer.solution_prompts.pool)
    before = trainer.solution_prompts.pool.state_dict()
    trainer.num_generations_eval = 4
    metrics = trainer.evaluate(Dataset.from_dict({"prompt": [prompt], "competition": ["wine"]}))
    assert trainer.turns[0]["kinds"] == ["scratch"] * 4
    assert set(trainer.turns[0]["prompts"]) == {prompt[0]["content"]}
    assert trainer.turns[0]["weights"] == [1.0] * 4
    assert trainer.solution_prompts.pool.state_dict() == before
    assert trainer.solution_prompts.generation == 0
    assert "eval_mle/valid_rate" in metrics or any(
        "eval_mle/valid_rate" in entry for entry in trainer.state.log_history
    )
