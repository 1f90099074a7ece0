"""The names of options, which are read from source code: they are those that the parsers have."""

import os
from argparse import ArgumentTypeError
from pathlib import Path

import pytest
from accelerate.commands.launch import launch_command_parser

from trl_mle.launching import make_parser
from trl_mle.option_names import check_options, no_such_options, script_options, split_options
from trl_mle.shipped import recipe_names


def test_they_are_those_of_the_parsers(monkeypatch):
    monkeypatch.setattr("trl_mle.option_names._check_values", lambda *values: None)
    assert {action.dest for action in make_parser()._actions} - {"help"} == set(script_options())
    for word in (
        word for parser in (make_parser(), launch_command_parser()) for word in parser._option_string_actions
    ):
        if word.startswith("--"):
            check_options([word, "1"])  # none is refused


OTHERS = {
    "include_num_input_tokens_seen",
    "log_level",
    "log_level_replica",
    "liger_kernel_config",
    "parallelism_config",
    "debug",
}  # not read


def test_values_are_those_of_the_parser():
    for action in make_parser()._actions:
        for value in ("1", "1e-3", "true", "ten", *(action.choices or ())) if action.type else ():
            try:
                taken = not action.choices or action.type(value) in action.choices
                action.type(value)
            except (ValueError, TypeError, ArgumentTypeError):
                taken = False
            if taken:
                check_options([f"--{action.dest}", value])
            elif action.dest not in OTHERS:
                with pytest.raises(ValueError, match=f"^{action.dest} (must|cannot) be "):
                    check_options([f"--{action.dest}", value])


@pytest.mark.parametrize("recipe", recipe_names())
def test_recipes_have_only_known_options(recipe):
    assert check_options(["--config", recipe])["--model_name_or_path"]


def test_values_of_the_command_line_come_before_those_of_the_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("competitions: [digits, wine]\ndata_dir: null\nseed: 3\nenv: {A: b}\n")
    values = check_options(["--config=mine.yaml", "--seed", "4", "--max-steps=2", "--learning", "-1", "--no_bf16"])
    assert values["--competitions"] == ["digits", "wine"]
    assert values["--data_dir"] == ["None"]
    assert values["--seed"] == ["4"]
    assert values["--max_steps"] == ["2"]
    assert values["--learning_rate"] == ["-1"]
    assert check_options(["--seed", "1", "--max_steps", "2", "--seed", "3"]) == {"--seed": ["3"], "--max_steps": ["2"]}


def test_an_abbreviation_counts_as_its_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("competitions: [digits]\n")
    assert check_options(["--config", "mine.yaml", "--competition", "wine"])["--competitions"] == ["wine"]


def test_options_are_those_of_the_launcher_or_of_the_script(tmp_path, monkeypatch):
    monkeypatch.setenv("OF_THE_RECIPE", "")
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("seed: 3\nnum_processes: 2\nmulti_gpu: false\nenv: {OF_THE_RECIPE: 1}\n")
    line = [
        "--main-process-port",
        "0",
        "--report_to",
        "none",
        "wandb",
        "--no_bf16",
        "--num_machines=1",
        "--learning",
        "-1",
    ]
    in_recipe, of_launcher, of_script = split_options(["--config", str(recipe), "--accelerate_config", "cpu", *line])
    assert in_recipe == ["--num_processes", "2", "--multi_gpu", "False"]
    assert os.environ["OF_THE_RECIPE"] == "1"
    assert of_launcher == ["--accelerate_config", "cpu", "--main-process-port", "0", "--num_machines=1"]
    options = ["--report_to", "none", "wandb", "--no_bf16", "--learning", "-1"]
    assert of_script == ["--config", str(recipe), *options]
    assert split_options(options) == ([], [], options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_step: 1\n", r"^there is no option max_step \(in mine.yaml\); did you mean 'max_steps'"),
        ("max-steps: 1\n", r"^there is no option max-steps \(in mine.yaml\); did you mean 'max_steps'\?$"),
        ("- 1\n", "^mine.yaml must hold lines of the form 'max_steps: 16'$"),
        ("a: [\n", "^mine.yaml is not YAML: "),
    ],
)
def test_a_recipe_that_cannot_be_read(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        check_options(["--config", "mine.yaml"])


def test_an_option_of_accelerate_in_the_script():
    assert no_such_options(["--num_processes", "2"]).endswith(
        "option of `accelerate launch`, which `trl-mle train` takes, too"
    )
    assert no_such_options(["word"]) == "unrecognized arguments: word"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learning_rate", "fast"], "^learning_rate must be a number, got 'fast'$"),
        (["--max_steps=1.5"], "^max_steps must be a whole number, got '1.5'$"),
        (["--max_steps"], "^max_steps takes one value, got none$"),
        (["--max-steps", "1", "2"], "^max_steps takes one value, got 1 2$"),
        (["--bf16", "maybe"], "^bf16 must be true or false, got 'maybe'$"),
        (["--reward_weights", "1", "a"], "^reward_weights must be a number, got 'a'$"),
        (["--instrumenter", "llm"], "^instrumenter cannot be 'llm'; did you mean 'lm'?"),  # metadata of a field
        (
            ["--save_strategy", "later"],
            "^save_strategy cannot be 'later'; it takes no, steps, epoch, best$",
        ),  # an Enum
    ],
)
def test_values(words, message):
    with pytest.raises(ValueError, match=message):
        check_options(words)


@pytest.mark.parametrize("name", ["max_steps", "objective", "bf16_full_eval"])
def test_null_in_a_recipe_is_a_value(tmp_path, name):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"{name}: null\nmax_prompt_length: null\nreport_to: null\nreward_weights: null\ngpu_slots: null\n"
    )
    with pytest.raises(ValueError, match=f"^{name} cannot be null: leave it out for its default$"):
        check_options(["--config", str(recipe)])


def test_values_that_pass():
    check_options(
        ["--bf16", "--report_to", "none", "wandb", "--reward_weights", "1", "2e-3", "--optim", "adamw_torch"]
    )
    check_options(
        [
            "--max_prompt_length",
            "none",
            "--save_steps",
            "0.5",
            "--generation_kwargs",
            "{}",
            "--resume_from_checkpoint",
            "true",
        ]
    )
