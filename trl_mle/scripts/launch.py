"""`trl-mle train`: runs the training script under `accelerate launch`, with TRL's conventions."""

import logging
import os
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import redirect_stderr
from io import StringIO
from subprocess import CalledProcessError

from trl_mle.competitions import TaskSet
from trl_mle.competitions.bench import bench_folder
from trl_mle.option_names import LAUNCHED, check_device, check_options, split_options, with_spaces
from trl_mle.shipped import find_accelerate_config, find_recipe, shipped
from trl_mle.waits import waiting_for


CONFIG, ACCELERATE_CONFIG = "--config", "--accelerate_config"
USAGE = "trl-mle train --config RECIPE [--accelerate_config CONFIG] [--OPTION VALUE ...]"
DESCRIPTION = """\
Trains a policy, in one or several processes. RECIPE is a YAML file with options, or a bundled one (`trl-mle recipes` lists
them); options of the command line override it. CONFIG says how many processes run and how they share the model: a bundled
name, such as cpu, ddp or zero3, or a file of accelerate's. Options of `accelerate launch`, such as --num_processes, may be
in either place."""


def launch(options: Sequence[str]) -> int:
    """
    Trains a policy in one or several processes.

    Raises:
        `FileNotFoundError`: The recipe or the configuration does not exist.
        `ValueError`: The recipe is not YAML, or there is no such option.
    """
    given = with_spaces(options)
    if not given:
        raise ValueError(f"name a recipe, or a model and competitions: {USAGE}")
    if "--help" in given or "-h" in given:
        from trl_mle.launching.arguments import make_parser

        parser = make_parser()
        parser.usage, parser.description = USAGE, DESCRIPTION
        parser.print_help()
        return 0
    if given[-1:] == [CONFIG]:
        raise ValueError("--config: name a recipe (`trl-mle recipes`) or a file")
    if not given[0].startswith("--"):
        raise ValueError(f"{given[0]}: name a recipe with --config: {USAGE}")
    _check_values(check_options(given))
    if CONFIG in given:
        place = given.index(CONFIG) + 1
        given[place] = str(find_recipe(given[place]))
    return _start(given)


def _check_values(values: dict[str, list[str]]) -> None:
    """Raises what can be said before a process is started: of names, without torch."""
    for name in values.get(ACCELERATE_CONFIG, ()):
        find_accelerate_config(name)
    tasks = TaskSet(values.get("--competitions", ()), next(iter(values.get("--data_dir", ())), None))
    for name in tasks.few():
        if (
            bench_folder(name) is None
        ):  # MLE-bench's own code may take minutes to start, and would stay with the launcher
            tasks[name]
    check_device(values)


def _start(given: list[str]) -> int:
    with waiting_for("the imports of torch and accelerate"):  # after everything that can be checked without them
        from accelerate.commands.launch import launch_command, launch_command_parser
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from trl.cli.accelerate_config import resolve_accelerate_config_argument
    parser = launch_command_parser()
    in_recipe, of_launcher, of_script = split_options(given)
    options = _as_words(in_recipe, parser) + of_launcher
    launch_options = resolve_accelerate_config_argument(_with_our_configs(options))
    script = shipped("recipes") / "train_mle.py"
    said = StringIO()
    try:
        with redirect_stderr(said):  # a hundred lines of usage precede the reason
            arguments = parser.parse_args([*launch_options, str(script), *of_script])
    except SystemExit as error:
        reason = said.getvalue().strip().splitlines()[-1].partition("error: ")[2]
        raise ValueError(reason) from error
    # It warns of each default that it fills in; these are meant
    logging.getLogger("accelerate.commands.launch").setLevel(logging.ERROR)
    os.environ[LAUNCHED] = "1"
    try:
        launch_command(arguments)
    except CalledProcessError as error:  # the script has printed the reason
        return error.returncode
    except ChildFailedError as error:  # raised by one of several processes
        return max(failure.exitcode for failure in error.failures.values())
    finally:
        os.environ.pop(LAUNCHED, None)  # accelerate may have restored the environment
    return 0


def _as_words(options: list[str], parser: ArgumentParser) -> list[str]:
    """Accelerate's options of a YAML, as on a command line: a flag that is true stands alone, and YAML takes `no` for false."""
    actions = {name: action for action in parser._actions for name in action.option_strings}
    found: list[str] = []
    for name, value in zip(options[::2], options[1::2], strict=True):
        action = actions.get(name)
        if action is not None and action.nargs == 0 and value in ("True", "False"):
            found += [name] if value == "True" else []
        else:
            found += [
                name,
                "no" if action is not None and value == "False" and "no" in (action.choices or ()) else value,
            ]
    return found


def _with_our_configs(options: list[str]) -> list[str]:
    """Replaces names by paths, because TRL would use its own files of the same names."""
    found = list(options)
    while found.count(ACCELERATE_CONFIG) > 1:  # the command line comes last and overrides the YAML
        place = found.index(ACCELERATE_CONFIG)
        del found[place : place + 2]
    if ACCELERATE_CONFIG in found[:-1]:
        place = found.index(ACCELERATE_CONFIG) + 1
        found[place] = str(find_accelerate_config(found[place]))
    return found
