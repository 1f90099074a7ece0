"""The commands in the README and on the pages exist, with their options; those that take seconds on a CPU are run."""

import argparse
import ast
import importlib
import inspect
import re
import shlex
import shutil
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest
from accelerate.commands.launch import launch_command_parser
from transformers import HfArgumentParser
from trl import GRPOConfig

from trl_mle import cli
from trl_mle.competitions import load_competition
from trl_mle.evaluation.evaluate import EvaluationArguments
from trl_mle.launching import MLEScriptArguments, make_parser
from trl_mle.scripts.solve import SolveArguments
from trl_mle.trainer import MLEGRPOConfig


ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """The commands of a page, split into words, without scripts."""
    text = "\n".join(text for text in blocks(page, "sh") if not text.startswith("#!"))
    return [words for line in text.replace("\\\n", " ").splitlines() if (words := shlex.split(line, comments=True))]


def commands_of_ours() -> dict[str, argparse.ArgumentParser]:
    """The commands of `trl-mle`, and their parsers."""
    (subcommands,) = (action for action in cli.make_parser()._actions if action.choices)
    return dict(subcommands.choices or {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_have_the_options_that_the_pages_name(page):
    options_of = {f"trl-mle {name}": {*parser._option_string_actions} for name, parser in commands_of_ours().items()}
    options_of["trl-mle recipes"].add("--to")  # of its `copy`
    training = {*launch_command_parser()._option_string_actions, *make_parser()._option_string_actions}
    training |= {"--config", "--accelerate_config"}
    options_of |= dict.fromkeys(("trl-mle train", "accelerate launch", "python recipes/train_mle.py"), training)
    for name, kind in (("trl-mle evaluate", EvaluationArguments), ("trl-mle solve", SolveArguments)):
        options_of[name] = {*HfArgumentParser((kind,))._option_string_actions}
    makefile = (ROOT / "Makefile").read_text()
    for words in commands(page):
        line = shlex.join(words)
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        known = next((known for name, known in options_of.items() if line.startswith(name)), None)
        if known is not None:
            assert options <= known, line
        elif words[0] == "make":
            targets = [word for word in words[1:] if "=" not in word]
            assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets), line
        elif words[0] == "python":
            text = (ROOT / words[1]).read_text(encoding="utf-8")
            for option in options:  # an argument, or the field of a dataclass
                assert option in text or re.search(rf"^    {option[2:]}: ", text, re.MULTILINE), line
        else:
            assert words[0] != "trl-mle", line


def test_every_option_of_ours_is_on_the_page_of_recipes():
    """Each command is on some page, too."""
    page = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    ours = {item.name for item in fields(MLEScriptArguments)} | MLEGRPOConfig.__dataclass_fields__.keys()
    missing = sorted(name for name in ours - GRPOConfig.__dataclass_fields__.keys() if f"`{name}`" not in page)
    assert not missing, f"docs/recipes.md lacks {', '.join(missing)}"
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert not [name for name in commands_of_ours() if f"trl-mle {name}" not in text]


@pytest.mark.parametrize("text", [text for page in PAGES for text in blocks(page, "python")])
def test_python_names_what_there_is(text):
    """Every import exists, and everything imported accepts the arguments that it is called with."""
    imported = {}
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("trl_mle", "trl"):
            module = importlib.import_module(node.module)
            imported |= {alias.name: getattr(module, alias.name) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in imported:
            keywords = {keyword.arg: None for keyword in node.keywords}
            inspect.signature(imported[node.func.id]).bind(*[None] * len(node.args), **keywords)


# Commands that are run, in the order of the page, in one folder
QUICK = ("competitions", "export", "grade", "new", "prompt", "recipes", "run")


@pytest.mark.slow
def test_quick_commands_do_what_the_pages_say(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    houses = pd.DataFrame({"rooms": [1.5 + i % 7 for i in range(200)], "age": [i % 31 for i in range(200)]})
    houses["day"] = [f"{1 + i % 28:02}/{1 + i // 28:02}/2024" for i in range(200)]
    for name in ("houses.csv", "train.csv"):
        houses.assign(price=houses["rooms"] + houses["age"]).to_csv(name, index=False)
    for name in ("unlabelled.csv", "test.csv"):
        houses.head(20).to_csv(name, index=False)
    Path("solution.py").write_text("import shutil\nshutil.copy('input/sample_submission.csv', 'submission.csv')\n")
    shutil.copy(load_competition("wine").sample_submission, "submission.csv")
    done = []
    for words in (words for page in PAGES for words in commands(page)):
        if words[0] == "trl-mle" and words[1] in QUICK and words not in done:
            assert command(*words[1:]) == 0, f"{shlex.join(words)}: {capsys.readouterr().err}"
            done.append(words)
    assert len(done) >= 8
    for name in ("mine.yaml", "houses/competition.yaml", "prices/final", "harbor_tasks/tasks/wine/task.toml"):
        assert Path(name).exists()


@pytest.mark.slow
def test_python_trains(program_model, tmp_path, monkeypatch):
    """Runs the README's code, except with a tiny model and for one step."""
    monkeypatch.chdir(tmp_path)
    text = next(block for block in blocks(ROOT / "README.md", "python") if "MLEGRPOTrainer(" in block)
    small = "max_steps=1, max_completion_length=8, report_to='none', max_prompt_length=None"
    text = text.replace('"Qwen/Qwen2.5-Coder-0.5B-Instruct"', repr(str(program_model))).replace("max_steps=100", small)
    exec(compile(text, "README.md", "exec"), {})
    assert list(Path("outputs/digits/checkpoint-1").glob("*.safetensors"))
