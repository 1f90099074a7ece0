import json
from pathlib import Path

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from trl_mle.trainer import MLEProgressCallback


LOGS = {"reward": -7.214, "mle/valid_rate": 0.3125, "mle/score/mean": 1.3, "mle/score/best": 0.212}
LOGS |= {"mle/duration_s/mean": 0.29, "step_time": 12.4, "loss": 0.1}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def printed(logs, capsys, **state) -> str:
    everything = {"global_step": 3, "max_steps": 24, "is_world_process_zero": True} | state
    MLEProgressCallback().on_log(TrainingArguments("x"), TrainerState(**everything), TrainerControl(), logs)
    return capsys.readouterr().out


def test_a_step_is_one_line(capsys):
    line = printed(LOGS, capsys).splitlines()[0]
    assert line == "step  3/24  reward  -7.21  valid  31%  score 1.300 (best 0.212)  Δt 0.29 s"
    assert printed({"reward": None}, capsys).splitlines()[0] == "step  3/24  reward      -"  # of no completion
    assert printed({"train_loss": 0.1}, capsys) == ""
    assert printed(LOGS, capsys, is_world_process_zero=False) == ""


def test_how_long_it_still_takes(monkeypatch, capsys):
    """After the first step and whenever half of the rest is done; a resumed run counts its own steps alone."""
    callback, arguments = MLEProgressCallback(), TrainingArguments("x")
    for step in range(4, 24):
        monkeypatch.setattr("time.monotonic", lambda step=step: 1000.0 + 60 * step)
        state = TrainerState(global_step=step, max_steps=24, is_world_process_zero=True)
        if step == 4:
            callback.on_train_begin(arguments, state, TrainerControl())
        else:
            callback.on_log(arguments, state, TrainerControl(), {"reward": 0.0})
    lines = [line.split(" left ")[0] for line in capsys.readouterr().out.splitlines() if "left" in line]
    assert lines == ["about 19 min", "about 9 min", "about 4 min", "about 2 min", "about 60 s"]


@pytest.mark.parametrize(
    ("rates", "is_said"), [((0.0, 0.0), True), ((0.9, 0.0, 0.0, 0.0), True), ((0.25, 0.0), False)]
)
def test_a_run_whose_last_programs_failed_says_so(capsys, rates, is_said):
    state = TrainerState(is_world_process_zero=True, log_history=[{"mle/valid_rate": rate} for rate in rates])
    MLEProgressCallback().on_train_end(TrainingArguments("my run"), state, TrainerControl())
    assert ("`trl-mle report 'my run'` shows how they failed" in capsys.readouterr().out) is is_said


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
