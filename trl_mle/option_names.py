"""
The options of a training run, and what can be said about them without importing torch, which takes seconds: their names
are read from the source code of the classes that have them.
"""

import ast
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from trl_mle.data_files import read_mapping
from trl_mle.shipped import find_recipe
from trl_mle.spelling import did_you_mean


CLASSES = {  # of the training script's arguments
    "transformers": ["training_args.py"],
    "trl": ["trainer/base_config.py", "trainer/grpo_config.py", "trainer/model_config.py"],
    "trl_mle": ["trainer/mle_grpo_config.py", "launching/arguments.py", "execution/options.py"],
}
LAUNCHER = "accelerate", "commands/launch.py"
OURS = "config", "accelerate_config", "help"


def _nodes(package: str, file: str) -> Iterator[ast.AST]:
    spec = find_spec(package)  # which does not import it
    assert spec is not None
    assert spec.submodule_search_locations, "a package has a folder"
    return ast.walk(ast.parse((Path(spec.submodule_search_locations[0]) / file).read_text(encoding="utf-8")))


@cache
def script_options() -> frozenset[str]:
    """Options of the training script: the fields of its dataclasses."""
    classes = [
        node
        for package, files in CLASSES.items()
        for file in files
        for node in _nodes(package, file)
        if isinstance(node, ast.ClassDef) and node.decorator_list
    ]
    fields = [item.target for node in classes for item in node.body if isinstance(item, ast.AnnAssign)]
    return frozenset(field.id for field in fields if isinstance(field, ast.Name))


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


def check_names(words: Sequence[str]) -> dict[str, list[str]]:
    """
    Checks the names of a command's options, and of those in its recipe; abbreviations pass.

    Args:
        words (`Sequence[str]`):
            The command line.

    Returns:
        `dict[str, list[str]]`: The values of each option by its full name, as strings; the command line overrides the recipe.

    Raises:
        `FileNotFoundError`: The recipe does not exist.
        `ValueError`: It is not YAML, or there is no such option.
    """
    given: dict[str, list[str]] = {}
    for word in with_spaces(words):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            given[name] = [value] if equals else []
        elif given:
            given[list(given)[-1]].append(word)
    in_recipe: dict[str, list[str]] = {}
    if recipe := given.get("--config"):
        config = read_mapping(find_recipe(recipe[0]), recipe[0], "max_steps: 16")
        config.pop("env", None)  # variables of the environment, as TRL has them
        for name, value in config.items():
            values = value if isinstance(value, list) else [] if value is None else [value]
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
    return in_recipe | {f"--{_full(_name(name), known)}": values for name, values in given.items()}


def _full(name: str, known: Collection[str]) -> str:
    """The option that a name stands for, if it begins only one."""
    begun = [option for option in known if option.startswith(name)]
    return begun[0] if name not in known and len(begun) == 1 else name
