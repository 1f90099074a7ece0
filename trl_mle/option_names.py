"""
The options of a training run, and what can be said about them without importing torch, which takes seconds: their names,
types and choices are read from the source code of the classes that have them.
"""

import ast
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trl_mle.data_files import read_mapping
from trl_mle.shipped import find_recipe
from trl_mle.spelling import did_you_mean, no_such_choice


CLASSES = {  # of the training script's arguments, and of their choices
    "transformers": ["trainer_utils.py", "training_args.py"],
    "trl": ["trainer/base_config.py", "trainer/grpo_config.py", "trainer/model_config.py"],
    "trl_mle": ["trainer/mle_grpo_config.py", "launching/arguments.py", "execution/options.py"],
}
LAUNCHER = "accelerate", "commands/launch.py"
LAUNCHED = "TRL_MLE_LAUNCHED"  # environment variable, set in the processes that `trl-mle train` starts
OURS = "config", "accelerate_config", "help"
BOOLEANS = dict.fromkeys(("yes", "true", "t", "y", "1"), True) | dict.fromkeys(("no", "false", "f", "n", "0"), False)
TYPES: dict[str, Any] = {
    "int": (int, "a whole number"), "float": (float, "a number"), "bool": (BOOLEANS.__getitem__, "true or false"),
}  # fmt: skip


def _nodes(package: str, file: str) -> Iterator[ast.AST]:
    spec = find_spec(package)  # which does not import it
    assert spec is not None
    assert spec.submodule_search_locations, "a package has a folder"
    return ast.walk(ast.parse((Path(spec.submodule_search_locations[0]) / file).read_text(encoding="utf-8")))


@cache
def _classes() -> dict[str, ast.ClassDef]:
    nodes = [node for package, files in CLASSES.items() for file in files for node in _nodes(package, file)]
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


@cache
def script_options() -> dict[str, ast.AnnAssign]:
    """Options of the training script: the fields of its dataclasses."""
    fields = [item for node in _classes().values() if node.decorator_list for item in node.body]
    return {
        item.target.id: item
        for item in fields
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def _check_values(name: str, values: Sequence[str], written: bool) -> None:
    """Raises `ValueError` if the type or the choices of an option exclude a value."""
    field = script_options()[name]
    kinds = set(re.findall(r"\w+", ast.unparse(field.annotation)))
    if (written and not values and "bool" not in kinds) or (len(values) > 1 and "list" not in kinds):
        raise ValueError(f"{name} takes one value, got {' '.join(values) or 'none'}")
    lines = [line for kind in kinds if kind in _classes() for line in _classes()[kind].body]
    choices = [ast.literal_eval(line.value) for line in lines if isinstance(line, ast.Assign)]  # of an Enum
    if metadata := re.search(r"'choices': (\[.*?\])", ast.unparse(field)):
        choices = ast.literal_eval(metadata[1])
    convert, expected = TYPES.get(" ".join(kinds - {"list", "None"}), (str, ""))
    may_be_none = bool(kinds & {"None", "list", "dict", "Any"}) or "default=None" in ast.unparse(field)
    for value in values:
        if value.lower() in ("none", "null"):
            if may_be_none or "none" in choices:
                continue
            if not written:
                raise ValueError(f"{name} cannot be null: leave it out for its default")
        if choices and value not in choices:
            raise ValueError(no_such_choice(name, value, choices))
        try:
            convert(value.lower())
        except (ValueError, KeyError):
            raise ValueError(f"{name} must be {expected}, got {value!r}") from None


@cache
def launcher_options() -> frozenset[str]:
    """Options of `accelerate launch`, which `trl-mle train` takes as well."""
    words = [str(node.value) for node in _nodes(*LAUNCHER) if isinstance(node, ast.Constant)]
    return frozenset(name for word in words if word.startswith("--") and (name := _name(word)).isidentifier())


def _name(word: str) -> str:
    return word.removeprefix("--").partition("=")[0].replace("-", "_")


def no_such_options(words: Sequence[str], where: str = "") -> str:
    """The message about options that do not exist."""
    known = [*launcher_options(), *script_options()]
    messages = []
    for word in (word for word in words if word.startswith("--")):
        written, name = word.removeprefix("--").partition("=")[0], _name(word)
        hint = f"did you mean {name!r}?" if name in script_options() else did_you_mean(name, known)
        if name in launcher_options():
            hint = "it is an option of `accelerate launch`, which `trl-mle train` takes, too"
        messages.append(f"there is no option {written}{where}{hint and f'; {hint}'}")
    return "; ".join(messages) or f"unrecognized arguments: {' '.join(words)}"


def with_spaces(words: Sequence[str]) -> list[str]:
    """The words of a command line, where TRL's parser and ours look for these options as words of their own."""
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        found += [name, value] if equals and name in ("--config", "--accelerate_config") else [word]
    return found


def check_options(words: Sequence[str]) -> dict[str, list[str]]:
    """
    Checks the options of a command, and of its recipe: names, of which abbreviations pass, and types and choices of values.

    Args:
        words (`Sequence[str]`):
            The command line.

    Returns:
        `dict[str, list[str]]`: The values of each option by its full name, as strings; the command line overrides the recipe.

    Raises:
        `FileNotFoundError`: The recipe does not exist.
        `ValueError`: It is not YAML, there is no such option, or it does not take such a value.
    """
    given: dict[str, list[str]] = {}
    for word in with_spaces(words):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            given[name] = values = [value] if equals else []  # the last one counts
        elif given:
            values.append(word)
    in_recipe: dict[str, list[str]] = {}
    if recipe := given.get("--config"):
        if recipe[1:]:
            raise ValueError(f"unrecognized arguments: {' '.join(recipe[1:])}")
        config = read_mapping(find_recipe(recipe[0]), recipe[0], "max_steps: 16")
        config.pop("env", None)  # variables of the environment, as TRL has them
        for name, value in config.items():
            values = value if isinstance(value, list) else ["None"] if value is None else [value]
            in_recipe[f"--{name}"] = [str(item) for item in values]
    known = {*OURS, *launcher_options(), *script_options()}
    if unknown := [name for name in in_recipe if name.removeprefix("--") not in known]:
        raise ValueError(no_such_options(unknown, f" (in {recipe[0]})" if recipe else ""))
    # argparse takes abbreviations, and `--no_…` for `--… false`
    begun = [(_name(name), _name(name).removeprefix("no_")) for name in given]
    if unknown := [
        name
        for name, begins in zip(given, begun, strict=True)
        if not any(option.startswith(begins) for option in known)
    ]:
        raise ValueError(no_such_options(unknown))
    written = {f"--{_full(_name(name), known)}": values for name, values in given.items()}
    for name, values in (in_recipe | written).items():
        if name.removeprefix("--") in script_options():
            _check_values(name.removeprefix("--"), values, name in written)
    return in_recipe | written


def split_options(words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """
    Splits checked options into those of accelerate in the recipe, whose variables of the environment it sets, those of accelerate on
    the command line, and those of the training script. Names of both are the script's, and so are abbreviations.
    """
    ours, launchers = {"config", *script_options()}, {"accelerate_config", *launcher_options()}

    def is_ours(name: str) -> bool:
        begun = name.removeprefix("no_")  # argparse takes it for `--… false`
        return name in ours or (name not in launchers and any(option.startswith(begun) for option in ours))

    in_recipe: list[str] = []
    if "--config" in words:
        path = words[words.index("--config") + 1]
        recipe = read_mapping(Path(path), path, "max_steps: 16")
        os.environ.update({name: str(value) for name, value in (recipe.pop("env", None) or {}).items()})
        in_recipe = [part for name, value in recipe.items() if name not in ours for part in (f"--{name}", str(value))]
    of_launcher: list[str] = []
    of_script: list[str] = []
    for word in words:
        if word.startswith("--"):
            target = of_script if is_ours(_name(word)) else of_launcher
        target.append(word)
    return in_recipe, of_launcher, of_script


def is_true(values: Mapping[str, Sequence[str]], name: str) -> bool:
    """Whether checked values set an option to true."""
    return name in values and BOOLEANS.get((values[name] or ["true"])[0].lower(), False)  # a flag may stand alone


def check_device(values: Mapping[str, Sequence[str]]) -> None:
    """Raises `ValueError` if checked values need a GPU that torch does not find."""
    if is_true(values, "--bf16") and not is_true(values, "--use_cpu"):
        import torch  # a second or two, of the many that a run takes to start

        if not torch.accelerator.is_available():
            raise ValueError(
                "bf16: this machine has no GPU that torch can use: take the recipe quickstart or quickstart-pretrained, which train "
                "on a CPU, or set use_cpu to true and bf16 to false"
            )


def _full(name: str, known: Collection[str]) -> str:
    """The option that a name stands for, if it begins only one."""
    begun = [option for option in known if option.startswith(name)]
    return begun[0] if name not in known and len(begun) == 1 else name
