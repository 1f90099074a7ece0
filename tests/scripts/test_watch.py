"""`trl-mle watch`: a run in progress."""

import json
import os
import time
from argparse import Namespace

import pytest
from support.training_runs import make_run
from transformers import TrainerControl, TrainerState, TrainingArguments

from trl_mle.report.training_run import read_metrics, read_run
from trl_mle.rewards.progress import RUNNING_FILE, ProgramsProgress
from trl_mle.scripts import watch as module
from trl_mle.scripts.watch import has_ended, view
from trl_mle.showing import PlainConsole
from trl_mle.trainer import MLEProgressCallback


def watch(folder):
    return module.watch(Namespace(folder=str(folder)))


def shown(folder):
    console = PlainConsole(width=80)
    with console.capture() as capture:
        console.print(view(folder))
    text = capture.get()
    assert all(len(line) <= 80 for line in text.splitlines())
    return text


def write_steps(folder, steps):
    lines = [{"step": step, "max_steps": 30, "reward": -7.0 + step, "mle/valid_rate": step / 30} for step in steps]
    with (folder / "metrics.jsonl").open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))


def row_of(text, competition):
    [row] = [line.split() for line in text.splitlines() if line.startswith(competition)]
    return row


def test_a_run_in_its_first_steps(tmp_path):
    folder = make_run(tmp_path / "run", finished=False, steps=2)
    assert "step  none yet" in shown(folder)
    write_steps(folder, [1, 2, 1, 2])  # it was resumed, and made them again
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "rew')  # is still being written
    assert [entry["step"] for entry in read_metrics(folder)] == [1, 2]
    text = shown(folder)
    assert "step  2 of 30" in text
    assert "no programs are running: the policy is sampling or training" in text
    assert (row_of(text, "wine")[1], row_of(text, "wine")[-1]) == ("32", "↑")
    assert not has_ended(folder)


def test_programs_that_run(tmp_path):
    folder = make_run(tmp_path / "run", finished=False, steps=2)
    with ProgramsProgress(64, False, folder / "executions") as progress:
        progress.update(12, "valid 3, slowest running 34 s")
        assert "12 of 64 programs done; valid 3, slowest running 34 s" in shown(folder)
        old = time.time() - 100
        os.utime(folder / "executions" / RUNNING_FILE, (old, old))
        assert "no update for 100 s: the run was killed, or hangs" in shown(folder)
    assert not (folder / "executions" / RUNNING_FILE).exists()


def test_from_before_its_beginning_until_its_end(tmp_path, monkeypatch, capsys):
    folder, callback = tmp_path / "run", MLEProgressCallback()
    args, control = TrainingArguments(str(folder)), TrainerControl()
    state = TrainerState(is_world_process_zero=True, max_steps=30)
    happenings = [
        lambda: callback.on_train_begin(args, state, control),
        lambda: write_steps(make_run(folder, finished=False, steps=1), [1]),
        lambda: setattr(state, "global_step", 30) or callback.on_train_end(args, state, control),
    ]
    monkeypatch.setattr(module.time, "sleep", lambda seconds: happenings.pop(0)())
    monkeypatch.setattr(module, "PlainConsole", lambda: PlainConsole(force_terminal=True, width=200))
    monkeypatch.setenv("TERM", "xterm")
    assert watch(folder) == 0
    text = capsys.readouterr().out
    places = [text.index(part) for part in ("(Ctrl-C ends)", "0 of 30", "1 of 30", "30 of 30, ended")]
    assert places == sorted(places)
    for step, max_steps in ((20, 40), (0, 16)):  # resumed, with more steps, and begun anew
        state = TrainerState(is_world_process_zero=True, max_steps=max_steps, global_step=step)
        MLEProgressCallback().on_train_begin(args, state, control)
        assert not has_ended(folder)
        assert f"step  {step} of {max_steps}" in shown(folder)


def test_once_where_it_is_no_terminal(tmp_path, capsys):
    folder = make_run(tmp_path / "run", steps=3, finished=False)
    assert watch(folder) == 0
    assert row_of(capsys.readouterr().out, "wine")[1] == "48"
    with pytest.raises(FileNotFoundError, match=r"holds no metrics.*has the run begun"):
        watch(tmp_path)


def test_each_of_several_competitions_has_a_row(tmp_path):
    """Also one whose programs all failed because of us."""
    folder = make_run(tmp_path / "run", steps=3, competitions=("wine", "diabetes"))
    path = folder / "executions" / "rank-0.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    ours = {"outcome": "infrastructure", "score": None, "reward": None, "duration_s": None}
    rows = [row | ours if row["competition"] == "wine" else row for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"time": \n')
    best = {one["competition"]: one["reported"] for one in read_run(folder).best}
    text = shown(folder)
    assert "is skipped" in " ".join(text.split())  # the unreadable line
    assert row_of(text, "wine")[1:5] == ["0", "-", "-", "-"]
    assert (row_of(text, "diabetes")[1], row_of(text, "diabetes")[-2:]) == ("24", [f"{best['diabetes']:.5g}", "↓"])
