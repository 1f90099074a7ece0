import json
from pathlib import Path

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from trl_mle.trainer import MLEProgressCallback


LOGS = {
    "reward": -7.214,
    "mle/valid_rate": 0.3125,
    "mle/score/mean": 1.3,
    "mle/score/best": 0.212,
    "mle/duration_s/mean": 0.29,
    "step_time": 12.4,
    "loss": 0.1,
}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def printed(logs, capsys, **state) -> str:
    everything = {"global_step": 3, "max_steps": 24, "is_world_process_zero": True} | state
    MLEProgressCallback().on_log(TrainingArguments("x"), TrainerState(**everything), TrainerControl(), logs)
    return capsys.readouterr().out


def test_a_step_is_one_line_that_fits_a_terminal(capsys):
    line = printed(LOGS, capsys)
    assert line == "step  3/24  reward  -7.21  valid  31%  score 1.300 (best 0.212)  Δt 0.29 s  12 s/step\n"
    assert len(line) < 90


def test_what_is_unknown_is_left_out(capsys):
    assert printed({"reward": -10.0}, capsys) == "step  3/24  reward -10.00\n"
    assert printed({"train_loss": 0.1}, capsys) == ""
    assert printed(LOGS, capsys, is_world_process_zero=False) == ""


def test_all_metrics_are_in_a_file_at_once(capsys):
    for step in (1, 2, 3):
        printed(LOGS | {"reward": float(step)}, capsys, global_step=step)
    rows = [json.loads(line) for line in Path("x/metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], row["reward"], row["loss"]) for row in rows] == [(1, 1.0, 0.1), (2, 2.0, 0.1), (3, 3.0, 0.1)]
    # A resumed run keeps the file, and a new one does not
    for step, kept in ((2, rows), (0, [])):
        state = TrainerState(global_step=step, max_steps=24, is_world_process_zero=True)
        MLEProgressCallback().on_train_begin(TrainingArguments("x"), state, TrainerControl())
        begun = {"step": step, "max_steps": 24, "ended": False}
        assert [json.loads(line) for line in Path("x/metrics.jsonl").read_text().splitlines()] == [*kept, begun]
    MLEProgressCallback().on_train_end(TrainingArguments("x"), state, TrainerControl())
    assert json.loads(Path("x/metrics.jsonl").read_text().splitlines()[-1]) == begun | {"ended": True}
