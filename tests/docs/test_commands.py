"""The commands in the README and on the pages exist, with their options; those that take seconds on a CPU are run."""

import argparse
import ast
import importlib
import inspect
import re
import shlex
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from accelerate.commands.launch import launch_command_parser
from transformers import HfArgumentParser
from trl import GRPOConfig

from trl_mle import cli
from trl_mle.competitions import load_competition
from trl_mle.evaluation.evaluate import EvaluationArguments
from trl_mle.launching import MLEScriptArguments, make_parser
from trl_mle.scripts import launch
from trl_mle.scripts.solve import SolveArguments
from trl_mle.starter.build import StarterConfig
from trl_mle.trainer import MLEGRPOConfig


ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PARSED_LATE = {"evaluate": EvaluationArguments, "solve": SolveArguments}
ON_CPU = ["--use_cpu", "true", "--bf16", "false"]
# Programs of others. `cp` and `git` put files where a benchmark looks for them
FOREIGN = {"pip", "harbor", "vllm", "ray", "docker", "cp", "git", "mkdir", "mlebench", "source"}
# Options of other programs, in running text and in scripts
FOREIGN_OPTIONS = re.compile(
    r"--(weight-transfer-config|logprobs-mode|max-logprobs|structured-outputs-config|extra-index-url|security-opt|cap-add|user|scope"
    r"|head|num-cpus|num-gpus|address|host|port|submission|output-dir|cpu|worker-extension-cls|index-url|reward_funcs|entrypoint|data-parallel-size|silent|fail|repo-type)$"
)


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """The commands of a page, split into words. Scripts are left out: `test_every_option_is_known` reads them."""
    texts = [text for text in blocks(page, "sh") if not text.startswith("#!")]
    lines = "\n".join(texts).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


EVERY = [
    pytest.param(words, id=f"{page.stem}-{number}-{words[0]}")
    for page in PAGES
    for number, words in enumerate(commands(page))
]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder with the files that commands name."""
    monkeypatch.chdir(tmp_path)
    for name in ("recipes", "accelerate_configs", "benchmarks"):
        Path(name).symlink_to(ROOT / name)
    Path("mine.yaml").write_text((ROOT / "recipes/quickstart.yaml").read_text())
    return tmp_path


def check_training(arguments: list[str], processes: int = 1) -> None:
    """Checks arguments of the training script."""
    arguments = [word for word in arguments if word != "..."]
    if "--config" not in arguments:
        arguments = ["--config", "mine.yaml", *arguments]
    # This process has no GPU, and samples in turn what several processes would have sampled
    in_turn = ["--gradient_accumulation_steps", str(processes)] if processes > 1 else []
    make_parser().parse_args_and_config([*arguments, *ON_CPU, *in_turn])


def check_trl_mle(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command, *options = [word for word in words if word != "..."]
    if command == "train":
        taken = []
        monkeypatch.setattr("accelerate.commands.launch.launch_command", taken.append)
        launch.launch([*options, *ON_CPU])
        (launched,) = taken
        check_training(launched.training_script_args)
    elif command in PARSED_LATE:
        options = {"solve": ["--competition"]}.get(command, []) + options
        required = {"evaluate": ("--policies", "--competitions", "--output_dir")}.get(command, ())
        for name in required:
            if "..." in words and name not in options:
                options += [name, "x"]
        HfArgumentParser((PARSED_LATE[command],)).parse_args_into_dataclasses(options)
    else:
        cli.make_parser().parse_args([command, *options])


@pytest.mark.parametrize("words", EVERY)
def test_command_is_one_that_can_be_typed(words, elsewhere, monkeypatch):
    while "=" in words[0] and not words[0].startswith("-"):  # NAME=value before a command
        words = words[1:]
    program, *rest = words
    if program == "trl-mle":
        check_trl_mle(rest, monkeypatch)
    elif program == "make":
        makefile = (ROOT / "Makefile").read_text()
        for word in rest:
            name, is_variable, _ = word.partition("=")
            assert re.search(rf"^{name} [?:]?=" if is_variable else rf"^{name}:", makefile, re.MULTILINE), word
    elif words[:3] == ["python", "-m", "trl_mle.starter"]:
        HfArgumentParser((StarterConfig,)).parse_args_into_dataclasses(words[3:])
    elif program == "python" and rest[0] == "recipes/train_mle.py":
        check_training(rest[1:])
    elif program == "python":
        text = (ROOT / rest[0]).read_text(encoding="utf-8")
        for option in [word for word in rest if word.startswith("--")]:  # an argument, or the field of a dataclass
            assert option in text or re.search(rf"^    {option[2:]}: ", text, re.MULTILINE), option
    elif words[:2] == ["accelerate", "launch"]:
        asked = launch_command_parser().parse_args([word for word in words[2:] if word != "..."])
        assert (ROOT / asked.config_file).is_file()
        assert asked.training_script == "recipes/train_mle.py"
        check_training(asked.training_script_args, asked.num_processes or 1)
    else:
        assert program in FOREIGN, f"the program {program} is neither ours nor in FOREIGN"


def commands_of_ours() -> dict[str, argparse.ArgumentParser]:
    """The commands of `trl-mle`, and their parsers."""
    (subcommands,) = (action for action in cli.make_parser()._actions if action.choices)
    return dict(subcommands.choices or {})


def test_every_option_is_known():
    """Also those in running text and in scripts: of our commands, of `accelerate launch`, or of a benchmark."""
    parsers = [make_parser(), launch_command_parser(), *commands_of_ours().values()]
    parsers += [HfArgumentParser((kind,)) for kind in (*PARSED_LATE.values(), StarterConfig)]
    known = {option for parser in parsers for action in parser._actions for option in action.option_strings}
    known |= {"--to", "--accelerate_config"}
    scripts = "".join(path.read_text() for path in (ROOT / "benchmarks").glob("*.py"))
    unknown = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        spans = "\n".join(re.findall(r"`[^`\n]+`", text) + blocks(page, "sh"))
        for option in set(re.findall(r"(?<![\w-])--[a-z][\w-]*", spans)) - known:
            of_others = FOREIGN_OPTIONS.match(option) or re.search(rf"(#SBATCH|srun|ray|serve)\b.*{option}\b", text)
            if not of_others and option not in scripts:
                unknown.append(f"{page.name}: {option}")
    assert not unknown


def test_every_option_of_ours_is_on_the_page_of_recipes():
    """Each command is on some page, too."""
    page = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    ours = {item.name for item in fields(MLEScriptArguments)} | MLEGRPOConfig.__dataclass_fields__.keys()
    missing = sorted(name for name in ours - GRPOConfig.__dataclass_fields__.keys() if f"`{name}`" not in page)
    assert not missing, f"docs/recipes.md lacks {', '.join(missing)}"
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert not [name for name in commands_of_ours() if f"trl-mle {name}" not in text]


def test_yaml_blocks_are_yaml():
    for page in PAGES:
        for text in blocks(page, "yaml"):
            assert isinstance(yaml.safe_load(text), dict | list)


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
SOLUTION = """
import pandas as pd
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
sample = pd.read_csv("input/sample_submission.csv")
sample.to_csv("submission.csv", index=False)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that a reader has before the first command."""
    folder = tmp_path_factory.mktemp("reader")
    rng = np.random.default_rng(0)
    houses = pd.DataFrame(rng.normal(size=(200, 3)), columns=["rooms", "age", "distance"])
    houses["day"] = [f"{1 + i % 28:02}/{1 + i // 28:02}/2024" for i in range(len(houses))]
    houses.assign(price=houses["rooms"] + houses["age"]).to_csv(folder / "houses.csv", index=False)
    houses.assign(price=houses["rooms"] + houses["age"]).to_csv(folder / "train.csv", index=False)
    for name in ("unlabelled.csv", "test.csv"):
        houses.head(20).to_csv(folder / name, index=False)
    (folder / "solution.py").write_text(SOLUTION)
    (folder / "submission.csv").write_bytes(load_competition("wine").sample_submission.read_bytes())
    return folder


@pytest.mark.slow
def test_quick_commands_do_what_the_pages_say(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    done = []
    for words in (words for page in PAGES for words in commands(page)):
        if words[0] == "trl-mle" and words[1] in QUICK and words not in done:
            monkeypatch.setattr("sys.argv", words)
            with pytest.raises(SystemExit) as ended:
                cli.main()
            assert ended.value.code == 0, f"{shlex.join(words)}: {capsys.readouterr().err}"
            done.append(words)
    assert len(done) >= 8
    for name in ("mine.yaml", "houses/competition.yaml", "flats/final", "harbor_tasks/tasks/wine/task.toml"):
        assert (folder / name).exists()


@pytest.mark.slow
def test_python_trains(program_model, tmp_path, monkeypatch):
    """Runs the README's code, except with a tiny model and for one step."""
    monkeypatch.chdir(tmp_path)
    text = next(block for block in blocks(ROOT / "README.md", "python") if "MLEGRPOTrainer(" in block)
    small = "max_steps=1, max_completion_length=8, report_to='none', max_prompt_length=None"
    for was, becomes in (('"Qwen/Qwen2.5-0.5B-Instruct"', repr(str(program_model))), ("max_steps=100", small)):
        assert was in text
        text = text.replace(was, becomes)
    exec(compile(text, "README.md", "exec"), {})
    assert list(Path("outputs/digits/checkpoint-1").glob("*.safetensors"))
