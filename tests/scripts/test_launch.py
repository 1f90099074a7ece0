"""`trl-mle train`: which options go to accelerate, and which to the training script."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from subprocess import CalledProcessError

import pytest
from accelerate.commands.launch import launch_command_parser

from trl_mle.launching import make_parser, parse
from trl_mle.scripts import launch as module
from trl_mle.shipped import LAUNCHED, find_recipe, shipped


@pytest.fixture
def launched(monkeypatch):
    """The launches that accelerate would have started."""
    seen = []
    monkeypatch.setattr("accelerate.commands.launch.launch_command", seen.append)
    monkeypatch.delenv(LAUNCHED, raising=False)
    return seen


def test_the_command_line_wins_over_the_yaml(launched, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "accelerate_config: zero3\nnum_processes: 4\nmixed_precision: no\nenable_cpu_affinity: true\n"
        + find_recipe("quickstart").read_text()
    )
    module.launch(["--config", str(recipe)])
    module.launch(["--config", str(recipe), "--accelerate_config", "ddp", "--num_processes", "2"])
    first, second = launched
    assert (Path(first.config_file).name, first.num_processes) == ("zero3.yaml", 4)
    assert (first.mixed_precision, first.enable_cpu_affinity) == ("no", True)
    assert (Path(second.config_file).name, second.num_processes) == ("ddp.yaml", 2)
    assert first.training_script == str(shipped("recipes") / "train_mle.py")
    assert first.training_script_args == second.training_script_args == ["--config", str(recipe)]


def test_options_are_those_of_the_launcher_or_of_the_script(launched, monkeypatch, tmp_path):
    monkeypatch.setenv("OF_THE_RECIPE", "")
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("seed: 3\nnum_processes: 2\nenv: {OF_THE_RECIPE: 1}\n")
    of_script = ["--report_to", "none", "wandb", "--no_bf16", "--learning", "-1", "--gradient-accumulation-steps", "2"]
    module.launch([f"--config={recipe}", "--main-process-port", "0", *of_script, "--num_machines=1"])
    [arguments] = launched
    assert os.environ["OF_THE_RECIPE"] == "1"
    assert (arguments.main_process_port, arguments.num_machines, arguments.num_processes) == (0, 1, 2)
    assert arguments.training_script_args == ["--config", str(recipe), *of_script]


def test_the_script_has_the_options_that_both_have():
    words = {word for word in launch_command_parser()._option_string_actions if word.startswith("--")}
    both = words & make_parser()._option_string_actions.keys() - {"--help"}
    assert {word.removeprefix("--").replace("-", "_") for word in both} == set(module.OF_THE_SCRIPT)


def test_what_cannot_be_started(launched, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("broken.yaml").write_text("competitions: [digits\nholdout: 0.5\n")
    several = "--config quickstart --accelerate_config cpu --num_processes 2"
    refused = {"quickstart": "name a recipe with", "--config broken.yaml": "is not YAML", several: "name ddp"}
    for options, message in refused.items():
        with pytest.raises(ValueError, match=message):
            module.launch(options.split())
    assert not launched


@pytest.mark.parametrize(
    "options",
    [["train", "--config", "digts"], ["evaluate", "--policies", "x", "--competitions", "digts", "--output_dir", "x"]],
    ids=["train", "evaluate"],
)
def test_arguments_are_checked_before_torch_is_imported(options, tmp_path):
    code = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); from trl_mle import cli; cli.main()"
    environment = os.environ | {"PYTHONPATH": str(Path(module.__file__).parents[2])}
    command = [sys.executable, "-c", code, *options]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (run.returncode, run.stdout) == (2, "False\n"), run.stderr
    assert "digts" in run.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_script_that_fails_has_said_why(launched, monkeypatch):
    def fail(arguments):
        raise CalledProcessError(2, ["train"])

    monkeypatch.setattr("accelerate.commands.launch.launch_command", fail)
    assert module.launch(["--config", "quickstart"]) == 2
    assert LAUNCHED not in os.environ


def test_launch_options_in_a_yaml_need_a_launcher(monkeypatch, tmp_path, capsys):
    """Without one they would be ignored."""
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("accelerate_config: cpu\nnum_processes: 1\n" + find_recipe("quickstart").read_text())
    monkeypatch.setattr(sys, "argv", ["train_mle.py", "--config", str(recipe), "--report_to", "none"])
    monkeypatch.delenv(LAUNCHED, raising=False)
    with pytest.raises(SystemExit):
        parse()
    assert "the recipe has an unknown option, accelerate_config" in capsys.readouterr().err
    monkeypatch.setenv(LAUNCHED, "accelerate_config num_processes")
    assert parse()[0].competitions == ["digits"]


@pytest.mark.slow
def test_it_trains_in_two_processes(solution_model, tmp_path, monkeypatch, capfd):
    """Their terminal need not know Δ."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    monkeypatch.delenv(LAUNCHED, raising=False)
    options = {
        "config": "quickstart", "model_name_or_path": solution_model.path, "output_dir": "policy", "max_steps": 1,
        "per_device_train_batch_size": 4, "num_generations": 8, "max_completion_length": 8, "max_prompt_length": 4000,
        "generation_kwargs": json.dumps(solution_model.options["generation_kwargs"]), "accelerate_config": "ddp", "num_processes": 2, "sandbox": "none",
    }  # fmt: skip
    code = module.launch([str(part) for name, value in options.items() for part in (f"--{name}", value)])
    assert LAUNCHED not in os.environ
    written = capfd.readouterr()
    assert code == 0, written.err[-3000:]
    assert re.search(r"step 1/1 .*\\u0394t", written.out)
    assert (tmp_path / "policy" / "model.safetensors").is_file()
    assert (tmp_path / "policy" / "executions" / "rank-1.jsonl").is_file()
