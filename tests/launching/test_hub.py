"""Pushes against a local server, through the real client."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import hub_runs
from support.hub_server import TOKEN, HubServer


QUICKSTART = str(Path(hub_runs.SCRIPT).parent / "quickstart.yaml")
SMALL = {
    "max_prompt_length": 4000,
    "max_completion_length": 8,
    "per_device_train_batch_size": 4,
    "num_generations": 2,
    "max_parallel_programs": 1,
    "save_steps": 2,
    "max_steps": 4,
    "push_to_hub": True,
    "competitions": ["wine"],
}


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hub():
    server = HubServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def runs(hub, tmp_path_factory, solution_model):
    """Exit code, stderr and folder of each run."""
    folder = tmp_path_factory.mktemp("hub")

    def arguments(name, model_id, **more):
        options = SMALL | solution_model.options | {"output_dir": str(folder / name), "hub_model_id": model_id} | more
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(Path(QUICKSTART).read_text()) | options))
        return ["--config", str(path), "--model_name_or_path", solution_model.path]

    pushes = {"hub_strategy": "all_checkpoints", "push_rollouts_to_hub": True}
    wanted = {
        "good": (arguments("good", "user/good", hub_always_push=True, **pushes), TOKEN),
        "broken": (arguments("broken", "user/broken", hub_strategy="every_save", max_steps=2), TOKEN),
        "token": (arguments("token", "org/token", hub_token=TOKEN, hub_revision="run-1", max_steps=2), None),
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "LOCAL_RANK"))}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    environment |= {"HF_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    asked = [{"arguments": arguments, "token": token} for arguments, token in wanted.values()]
    (folder / "wanted.json").write_text(json.dumps(asked))
    process = subprocess.run(
        [sys.executable, hub_runs.__file__, str(folder / "wanted.json"), str(folder / "results.json")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    results = json.loads((folder / "results.json").read_text())
    return {name: (*result, folder / name) for name, result in zip(wanted, results, strict=True)}


def test_what_is_wanted_arrives(runs, hub):
    """The model with its card and checkpoints, and the record of its programs as a dataset."""
    code, errors, folder = runs["good"]
    assert code == 0, errors[-3000:]
    main = hub.branches["models/user/good", "main"]
    for name in ("model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja", "README.md"):
        assert main[name] == (folder / name).read_bytes()
    for step in (2, 4):  # hub_strategy
        assert {f"checkpoint-{step}/{name}" for name in ("optimizer.pt", "solution_pool.json")} <= main.keys()
        weights = (folder / f"checkpoint-{step}" / "model.safetensors").read_bytes()
        assert main[f"checkpoint-{step}/model.safetensors"] == weights
    assert not [name for name in main if name.startswith(("executions/", "best_solutions/", "completions/"))]
    files = hub.branches["datasets/user/good-rollouts", "main"]
    assert files["executions/rank-0.jsonl"] == (folder / "executions" / "rank-0.jsonl").read_bytes()
    assert {"solution.py", "submission.csv", "score.json"} == {
        name.rpartition("/")[2] for name in files if name.startswith("best_solutions/")
    }
    assert b"Run them in a sandbox only" in files["README.md"]


def test_broken_upload_loses_nothing(runs, hub):
    code, errors, folder = runs["broken"]
    assert code == 2
    lines = [line for line in errors.splitlines() if "error" in line or "failed" in line]
    last = f"train_mle.py: error: the push to the Hub failed; everything is still in {folder}: "
    assert last in lines[-1]  # may begin with a progress bar that the failure cut off
    assert "413" in lines[-1]
    assert hub.branches["models/user/broken", "main"] == {}
    for name in ("model.safetensors", "README.md", "checkpoint-2/trainer_state.json"):
        assert (folder / name).is_file()


def test_token_in_the_arguments_is_not_pushed(runs, hub):
    assert runs["token"][0] == 0, runs["token"][1][-3000:]
    assert hub.branches["models/org/token", "main"] == {}
    files = hub.branches["models/org/token", "run-1"]  # hub_revision
    assert "model.safetensors" in files
    assert not [name for name, content in files.items() if TOKEN.encode() in content]
