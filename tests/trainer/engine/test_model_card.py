"""What a model card says about scores."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from transformers import TrainerState

from trl_mle.competitions import TaskSet, load_competition
from trl_mle.competitions.own import new_competition
from trl_mle.execution import Limits
from trl_mle.rewards import BestSolutions
from trl_mle.trainer import MLEGRPOConfig
from trl_mle.trainer.engine.model_card import card_body


def card(folder, competition, **scores):
    BestSolutions(folder / "best_solutions").offer(competition, "x = 1", b"id\n", 0.9, **scores)
    args = MLEGRPOConfig(str(folder), max_steps=2, use_cpu=True, bf16=False)
    state = TrainerState(global_step=1, log_history=[{"step": 1, "reward": 0.5, "mle/score/best": 0.9}])
    return card_body(
        "policy", None, None, args, folder, "one process", False, TaskSet([competition]), [], {}, state, Limits()
    )


def test_the_best_program_is_reported_on_the_held_out_rows(tmp_path):
    text = card(tmp_path, load_competition("wine", holdout=0.5), held_out=0.7, full=0.8)
    assert "chosen by the validation rows, scores **0.7000** on the held-out rows (`chosen_by: validation`)" in text
    assert "0.8000 on all rows" in text
    assert "valid submissions on the hidden answers that training sees, the validation rows." in text


def test_without_held_out_rows_there_is_one_score(tmp_path):
    text = card(tmp_path, load_competition("wine"))
    assert "The best program of the whole run scores **0.9000** in `wine`." in text
    assert "valid submissions on the hidden answers. Valid" in text
    assert "held-out" not in text


def test_the_steps_are_those_that_were_done(tmp_path):
    """A run may be given in epochs, and a card be written before its end."""
    args = MLEGRPOConfig(str(tmp_path), num_train_epochs=2, use_cpu=True, bf16=False)
    for steps, shown in ((1, "1 step of"), (40, "40 steps of")):
        state = TrainerState(global_step=steps)
        text = card_body(None, None, None, args, tmp_path, "one process", False, TaskSet([]), [], {}, state, Limits())
        assert f"\n- {shown} {args.generation_batch_size} programs in groups" in text


def test_the_commands_do_not_depend_on_where_training_ran(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"size": range(40), "price": range(40)})
    table.to_csv("houses.csv", index=False)
    new_competition(Path("houses.csv"), ["price"], "rmse", Path("houses"))
    text = card(Path("outputs/policy"), load_competition("./houses"))
    assert "`houses` is a competition of the author's own, which is not part of the model" in text
    assert 'load_competition("path/to/houses")' in text
    assert "`trl-mle run path/to/houses solution.py`" in text
    assert 'model="path/to/policy"' in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [("wine", "wine"), ("mirror:leaf-classification?rows=99", "'mirror:leaf-classification?rows=99'")],
)
def test_the_commands_for_what_the_package_brings(tmp_path, name, shown):
    competition = replace(load_competition("wine"), id=name)
    text = card(tmp_path, competition)
    assert f'load_competition("{name}")' in text
    assert f"`trl-mle run {shown} solution.py`" in text
    assert "## How to use it\n\n```python" in text


def test_a_competition_of_mlebench_must_be_prepared(tmp_path):
    text = card(tmp_path, replace(load_competition("wine"), id="leaf-classification"))
    assert "## How to use it\n\n`trl-mle prepare leaf-classification` downloads" in text


def test_each_competition_has_its_first_and_its_last_batch(tmp_path):
    """Not every batch has all competitions."""
    names = ["wine", "diabetes"]
    history = [{"step": step, "reward": 0.5} for step in (1, 2, 3)]
    for step, name, rate in ((1, "wine", 0.25), (2, "wine", 0.5), (2, "diabetes", 0.0), (3, "diabetes", 0.75)):
        history[step - 1] |= {f"mle/{name}/programs": 8, f"mle/{name}/valid_rate": rate}
    args = MLEGRPOConfig(str(tmp_path), max_steps=3, use_cpu=True, bf16=False)
    loaded, state = [load_competition(name) for name in names], TrainerState(log_history=history)
    text = card_body(
        "policy", None, None, args, tmp_path, "one process", False, TaskSet(loaded), [], {}, state, Limits()
    )
    for expected in (
        "before, step 1 | 8 | 25%",
        "after, step 2 | 8 | 50%",
        "before, step 2 | 8 | 0%",
        "after, step 3 | 8 | 75%",
    ):
        assert f"| {expected} |" in text
