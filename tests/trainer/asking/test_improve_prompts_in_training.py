"""The prompts of groups, the rewards of their completions, and what is logged about both."""

from pathlib import Path

import pandas as pd
import pytest
from datasets import Dataset
from support import pool_runs
from support.on_cpu import ON_CPU
from support.pool_runs import GROUP_SIZE, GROUPS, ReplayTrainer

from trl_mle.competitions import TaskSet, load_competition
from trl_mle.execution import Limits
from trl_mle.prompts import scratch_prompt
from trl_mle.solutions.pool import Solution
from trl_mle.trainer import MLEGRPOConfig
from trl_mle.trainer.asking.solution_prompts import SolutionPrompts
from trl_mle.trainer.batch import SCRATCH


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


def test_groups_are_asked_as_often_as_configured(trainer):
    assert {row["prompt_kind"] for row in choose(trainer, 20)} == {"scratch"}  # there is no solution yet
    fill(trainer.solution_prompts.pool)
    chosen = choose(trainer, 200)
    groups = chosen[::GROUP_SIZE]
    assert chosen == [group for group in groups for _ in range(GROUP_SIZE)]
    improved = [group for group in groups if group["prompt_kind"] == "improve"]
    assert abs(len(improved) / 1000 - 0.6) < 4 * (0.24 / 1000) ** 0.5
    assert {group["competition"] for group in improved} == {"wine"}  # the pool has none for the other
    assert len({group["parent_id"] for group in improved}) == 5
    assert choose(trainer, 5) == chosen[: 5 * 10 * GROUP_SIZE]  # a function of the seed
    assert choose(trainer, 5, seed=43) != chosen[: 5 * 10 * GROUP_SIZE]


def test_with_ideas_a_variation_of_a_good_one_is_asked_for():
    """The best program's idea is varied most often. Where no solution has an idea with a number, the row stays as it
    is."""
    tasks = TaskSet(["wine"])
    args = MLEGRPOConfig("out", **ON_CPU, ideas="default", improve_probability=0.5, num_generations=2)
    args.per_device_train_batch_size = 2
    prompts = SolutionPrompts(tasks, args, Limits(), lambda prompt: 0)
    rows = [{"prompt": FROM_SCRATCH, "competition": "wine", "idea": "a forest"} | SCRATCH] * 400
    prompts.pool.observe([Solution("wine", "x = 0", "", 1.0, step=1, idea="GaussianNB()")])
    assert prompts.choose(rows, first=0) == rows
    ideas = "RandomForestClassifier(n_estimators=300)", "ExtraTreesClassifier(n_estimators=900)"
    prompts.pool.observe(Solution("wine", f"x = {i}", "", i / 2, step=1, idea=idea) for i, idea in enumerate(ideas, 1))
    varied = [row for row in prompts.choose(rows, first=0)[:: args.group_size] if row["prompt_kind"] == "improve"]
    assert 60 < len(varied) < 140  # of 200
    assert {row["parent_score"] for row in varied} == {0.5, 1.0}
    for row in varied:
        assert row["idea"] not in ideas
        assert f"# Fit {row['idea']} to X_train" in row["prompt"][-1]["content"]
    best = [row for row in varied if row["parent_score"] == 1.0]
    assert all(row["idea"].startswith("ExtraTrees") for row in best)
    assert len(best) > len(varied) / 2


def test_scores_on_other_rows_are_not_resumed(trainer):
    prompts = trainer.solution_prompts
    state = prompts.state_dict()
    with pytest.raises(ValueError, match=r"scores of wine are those of holdout 0\.5, not 0"):
        prompts.load_state_dict(state | {"holdout": {"wine": 0.5}})
    prompts.load_state_dict(state | {"holdout": {"wine": 0.0}})  # diabetes was not trained on


@pytest.mark.parametrize("show", [False, True])
def test_prompts_show_program_and_output_and_the_score_only_if_asked_to(trainer, monkeypatch, show):
    monkeypatch.setattr(trainer.args, "show_test_score", show)
    [message] = trainer.solution_prompts.prompt_with(Solution("wine", "x = 1", "validation 0.5", 0.87654, step=0))
    assert "```python\nx = 1\n```" in message["content"]
    assert "validation 0.5" in message["content"]
    assert ("0.87654" in message["content"]) is show


def test_a_limit_that_is_too_small_is_refused_at_once(program_model, tmp_path, monkeypatch):
    short = [{"role": "user", "content": "Kaggle competition: wine"}]
    monkeypatch.setattr("trl_mle.trainer.asking.dataset.scratch_prompt", lambda *_, **__: short)
    with pytest.raises(ValueError, match="a prompt to improve solutions of"):
        make_trainer(program_model, tmp_path, max_prompt_length=60)
    make_trainer(program_model, tmp_path, max_prompt_length=60, improve_probability=0.0)


def test_the_table_says_what_each_completion_was_asked(program_model, tmp_path):
    """Also where the dataset does not name the only competition."""
    prompts = Dataset.from_dict({"prompt": [scratch_prompt(load_competition("diabetes"))] * ROWS})
    trainer = make_trainer(program_model, tmp_path, competitions=["diabetes"], log_completions=True)
    trainer.train_dataset = prompts
    trainer.train()
    entries = trainer.solution_prompts.pool.state_dict()["diabetes"]
    assert min(entry["step"] for entry in entries) == 1
    tables = [pd.read_parquet(path) for path in sorted((Path(tmp_path) / "completions").glob("*.parquet"))]
    for turn, table in zip(trainer.turns, tables, strict=True):
        assert list(table["prompt_kind"]) == turn["kinds"]
        assert table["parent_id"][table["prompt_kind"] == "scratch"].isna().all()
        assert set(table["parent_id"].dropna()) <= {Solution(**entry).id for entry in entries}
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert history[-1]["mle/pool/size"] == len(entries)
    assert any("mle/improve/valid_rate" in entry for entry in history)


def test_evaluation_is_from_scratch_and_leaves_the_pool_alone(program_model, tmp_path):
    prompt = scratch_prompt(load_competition("wine"))
    trainer = make_trainer(program_model, tmp_path, improve_probability=1.0, per_device_eval_batch_size=4)
    fill(trainer.solution_prompts.pool)
    before = trainer.solution_prompts.pool.state_dict()
    trainer.num_generations_eval = 4
    metrics = trainer.evaluate(Dataset.from_dict({"prompt": [prompt], "competition": ["wine"]}))
    turn = trainer.turns[0]
    assert (turn["kinds"], turn["weights"]) == (["scratch"] * 4, [1.0] * 4)
    assert set(turn["prompts"]) == {prompt[0]["content"]}
    assert trainer.solution_prompts.pool.state_dict() == before
    assert trainer.solution_prompts.generation == 0
    assert any("eval_mle/valid_rate" in entry for entry in (metrics, *trainer.state.log_history))
