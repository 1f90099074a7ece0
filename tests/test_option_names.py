"""The names of options, which are read from source code: they are those that the parsers have."""

from pathlib import Path

import pytest
from accelerate.commands.launch import launch_command_parser

from trl_mle.launching import make_parser
from trl_mle.option_names import check_names, no_such_options, script_options
from trl_mle.shipped import recipe_names


def test_they_are_those_of_the_parsers():
    assert {action.dest for action in make_parser()._actions} - {"help"} == script_options()
    for word in (
        word for parser in (make_parser(), launch_command_parser()) for word in parser._option_string_actions
    ):
        if word.startswith("--"):
            check_names([word, "1"])  # none is refused


@pytest.mark.parametrize("recipe", recipe_names())
def test_recipes_have_only_known_options(recipe):
    assert check_names(["--config", recipe])["--model_name_or_path"]


def test_values_of_the_command_line_come_before_those_of_the_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("competitions: [digits, wine]\ndata_dir: null\nseed: 3\nenv: {A: b}\n")
    values = check_names(["--config=mine.yaml", "--seed", "4", "--max-steps=2", "--learning", "-1", "--no_bf16"])
    assert values["--competitions"] == ["digits", "wine"]
    assert values["--data_dir"] == []
    assert values["--seed"] == ["4"]
    assert values["--max_steps"] == ["2"]
    assert values["--learning_rate"] == ["-1"]


def test_an_abbreviation_counts_as_its_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("competitions: [digits]\n")
    assert check_names(["--config", "mine.yaml", "--competition", "wine"])["--competitions"] == ["wine"]


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
        check_names(["--config", "mine.yaml"])


def test_an_option_of_accelerate_in_the_script():
    assert no_such_options(["--num_processes", "2"]).endswith(
        "option of `accelerate launch`, which `trl-mle train` takes, too"
    )
    assert no_such_options(["word"]) == "unrecognized arguments: word"
