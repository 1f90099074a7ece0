"""`trl-mle train`: runs the training script under `accelerate launch`, with TRL's conventions."""

import logging
import os
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Collection, Mapping, Sequence
from subprocess import CalledProcessError
from typing import Any

from trl_mle.data_files import read_mapping
from trl_mle.shipped import LAUNCHED, find_accelerate_config, find_recipe, shipped
from trl_mle.waits import waiting_for


USAGE = "trl-mle train --config RECIPE [--accelerate_config CONFIG] [--OPTION VALUE ...]"
DESCRIPTION = """\
Trains a policy, in one or several processes. RECIPE is a YAML file with options, or a bundled one (`trl-mle recipes`
lists them); options of the command line override it. CONFIG says how many processes run and how they share the model:
a bundled name, such as cpu, ddp or zero3, or a file of accelerate's. Options of `accelerate launch`, such as
--num_processes, may be in either place."""
OF_THE_SCRIPT = ("debug", "gradient_accumulation_steps")  # accelerate's launcher has options of these names, too


def launch(options: Sequence[str]) -> int:
    """Trains a policy; raises `OSError` or `ValueError` if the recipe or the configuration cannot be read."""
    parser = ArgumentParser(usage=USAGE, allow_abbrev=False, add_help=False)
    parser.add_argument("--config")
    parser.add_argument("--accelerate_config")
    parser.add_argument("--help", "-h", action="store_true")
    args, options = parser.parse_known_args(options)
    if args.help:
        from trl_mle.launching import make_parser

        script_parser = make_parser()
        script_parser.usage, script_parser.description = USAGE, DESCRIPTION
        script_parser.print_help()
        return 0
    if not (options or args.config) or (options and not options[0].startswith("--")):
        raise ValueError(f"name a recipe with --config, or a model and competitions: {USAGE}")
    recipe: dict[str, Any] = {}
    script_args: list[str] = []
    if args.config is not None:
        path = find_recipe(args.config)
        recipe, script_args = read_mapping(path, args.config, "max_steps: 16"), ["--config", str(path)]
    config = args.accelerate_config or recipe.get("accelerate_config")
    launcher_args = [] if config is None else ["--config_file", str(find_accelerate_config(config))]
    return _start(recipe, launcher_args, script_args, options)


def _start(recipe: Mapping[str, Any], launcher_args: list[str], script_args: list[str], options: Sequence[str]) -> int:
    with waiting_for("the imports of torch and accelerate"):  # after everything that can be checked without them
        from accelerate.commands.launch import launch_command, launch_command_parser
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    parser = launch_command_parser()
    parser.usage, parser.prog = SUPPRESS, "trl-mle train"  # a hundred lines of usage would precede the reason
    actions = {_name(word): action for action in parser._actions for word in action.option_strings}
    launchers = actions.keys() - {*OF_THE_SCRIPT, "help"}
    in_recipe = [name for name in recipe if name in launchers]
    for name in in_recipe:
        if actions[name].nargs == 0:  # a flag
            launcher_args += [f"--{name}"] if recipe[name] else []
        else:
            launcher_args += [f"--{name}", "no" if recipe[name] is False else str(recipe[name])]  # YAML's `no`
    of_launcher, of_script = _split(options, launchers)
    script = str(shipped("recipes") / "train_mle.py")
    arguments = parser.parse_args([*launcher_args, *of_launcher, script, *script_args, *of_script])
    if (arguments.num_processes or 1) > 1 and arguments.config_file == str(find_accelerate_config("cpu")):
        raise ValueError("--accelerate_config cpu is one process: name ddp for several")
    # It warns of each default that it fills in; these are meant
    logging.getLogger("accelerate.commands.launch").setLevel(logging.ERROR)
    os.environ |= {name: str(value) for name, value in (recipe.get("env") or {}).items()}  # as TRL has them
    os.environ[LAUNCHED] = " ".join(["accelerate_config", *in_recipe])
    try:
        launch_command(arguments)
    except CalledProcessError as error:  # the script has printed the reason
        return error.returncode
    except ChildFailedError as error:  # raised by one of several processes
        return max(failure.exitcode for failure in error.failures.values())
    finally:
        os.environ.pop(LAUNCHED, None)  # accelerate may have restored the environment
    return 0


def _name(word: str) -> str:
    return word.lstrip("-").partition("=")[0].replace("-", "_")


def _split(words: Sequence[str], launchers: Collection[str]) -> tuple[list[str], list[str]]:
    """Splits a command line into the options of accelerate's launcher and those of the training script."""
    of_launcher: list[str] = []
    of_script: list[str] = []
    for word in words:
        if word.startswith("--"):
            target = of_launcher if _name(word) in launchers else of_script
        target.append(word)
    return of_launcher, of_script
