"""A killed run continues from its last checkpoint as if nothing had happened."""

import random
import signal
import time

import pytest
import torch
import transformers
from packaging.version import Version
from support import pool_runs
from support.pool_runs import ZERO_2

from trl_mle.launching.checks import checkpoint_to_resume


STEPS = 6
BATCH = pool_runs.GROUPS * pool_runs.GROUP_SIZE
ASYNC = {"async_rollouts": True, "max_in_flight": 2 * BATCH}
SAVED = {"save_strategy": "steps", "save_steps": 2}


def killed_run(folder, model, processes, **options):
    """Kills a run's processes at a random moment after its first checkpoint; returns the checkpoint to resume from."""
    # Programs take a while, so that most kills come in the middle of a step
    options = options | SAVED | {"model": model, "steps": STEPS - 2, "wait_s": 0.4 / 12 * processes}
    options["to_be_killed"] = True
    started = pool_runs.start(folder, {"killed": options}, processes)
    first = folder / "killed" / "checkpoint-2" / "trainer_state.json"
    deadline = time.monotonic() + 200
    try:
        while not first.is_file():
            assert all(process.is_alive() for process in started), (folder / "killed-0.log").read_text()[-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 1.0))
    finally:
        for process in started:
            process.kill()
    for process in started:
        process.join()
    assert {process.exitcode for process in started} == {-signal.SIGKILL}
    return checkpoint_to_resume("true", folder / "killed")


def check(whole, resumed, checkpoint):
    """Checks that a resumed process's record is the end of an uninterrupted one's."""
    done = int(checkpoint.rpartition("-")[2])
    assert len(whole["turns"]) == STEPS
    assert resumed["turns"] == whole["turns"][done:]  # prompts, completions, rewards, weights, advantages
    assert "improve" in {kind for turn in whole["turns"] for kind in turn["kinds"]}
    for name in ("pool", "generation", "rng", "mean_duration"):
        assert resumed[name] == whole[name]
    if whole["turns"][0]["staleness"][0] is not None:  # asynchronous
        assert resumed["ledger"] == whole["ledger"]
    assert resumed["losses"] == whole["losses"]
    for name, weights in whole["weights"].items():
        assert torch.equal(resumed["weights"][name], weights)


@pytest.mark.parametrize("options", [{}, pytest.param(ASYNC, marks=pytest.mark.slow)], ids=["sync", "async"])
def test_of_one_process(program_model, tmp_path, options):
    checkpoint = killed_run(tmp_path, program_model, 1, **options)
    whole = pool_runs.run(program_model, tmp_path / "whole", STEPS, **SAVED, **options)
    resumed = pool_runs.run(program_model, tmp_path / "resumed", STEPS, checkpoint, **SAVED, **options)
    check(whole, resumed, checkpoint)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"deepspeed": ZERO_2}, ASYNC], ids=["ddp", "zero2", "ddp-async"])
@pytest.mark.skipif(
    Version(transformers.__version__) < Version("5.23"),
    reason="transformers 5.17 loads the optimizer of several CPU processes to cpu:0, which torch does not support",
)
def test_of_two_processes(program_model, tmp_path, options):
    if "deepspeed" in options:
        pytest.importorskip("deepspeed")
    checkpoint = killed_run(tmp_path, program_model, 2, **options)
    options = options | SAVED | {"model": program_model, "steps": STEPS}
    runs = {"whole": options, "resumed": options | {"resume_from_checkpoint": checkpoint}}
    started = pool_runs.start(tmp_path, runs, 2)
    records = {name: pool_runs.finish(started, tmp_path, name) for name in runs}
    for whole, resumed in zip(records["whole"], records["resumed"], strict=True):
        check(whole, resumed, checkpoint)
    first, second = records["resumed"]
    assert first["pool"] == second["pool"]
    assert first["turns"] != second["turns"]  # each has its own rows


def test_a_checkpoint_that_was_not_written_to_its_end_is_passed_over(tmp_path):
    for name, state in {"checkpoint-8": "{}", "checkpoint-10": '{"epoch": 0.', "checkpoint-12": "{}"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_state.json").write_text(state)
        if name != "checkpoint-12":  # of the model alone (`save_only_model`)
            (tmp_path / name / "rng_state.pth").touch()
    assert checkpoint_to_resume("true", tmp_path) == str(tmp_path / "checkpoint-8")
    with pytest.raises(ValueError, match="checkpoint-12 is left out"):
        checkpoint_to_resume(str(tmp_path / "checkpoint-12"), tmp_path)
