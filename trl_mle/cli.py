"""`trl-mle`: train and evaluate policies that write programs that solve competitions."""

import argparse
import os
import re
import sys
import traceback
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from trl_mle import __version__
from trl_mle.showing import for_terminal, never_fail_to_print, terminal_line
from trl_mle.spelling import did_you_mean


Arguments = TypeVar("Arguments")


class Parser(argparse.ArgumentParser):
    """Suggests what a mistyped command may have meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = list(map(str, action.choices or ()))
        if choices and value not in choices and (hint := did_you_mean(str(value), choices)):
            raise argparse.ArgumentError(action, f"there is no {value!r}; {hint}")
        super()._check_value(action, value)


# The commands import what they need: `trl-mle --help` should not wait for pandas.
def doctor(args: argparse.Namespace) -> int:
    """Runs test programs to show how this machine isolates programs and what they can import; exit code 1 if it cannot isolate
    them, 2 if this is unknown because a test did not end."""
    from trl_mle.scripts.doctor import doctor

    return doctor(args.program_python)


def competitions(args: argparse.Namespace) -> int:
    """Lists the competitions with their metrics and rows, and whether they are prepared."""
    from trl_mle.scripts.listing import list_all

    return list_all(args.data_dir, args.json)


def grade(args: argparse.Namespace) -> int:
    """Scores a submission; exit code 1 if it is invalid."""
    from trl_mle.scripts.grade import grade

    return grade(args)


def run(args: argparse.Namespace) -> int:
    """Runs one program as training would; exit code 1 if it makes no valid submission."""
    from trl_mle.scripts.grade import run

    return run(args)


def prompt(args: argparse.Namespace) -> int:
    """Prints a competition's scratch prompt as training would give it to the model, with the packages that programs can
    import in the sandbox here, and its estimated number of tokens on stderr."""
    from trl_mle.scripts.grade import show_prompt

    return show_prompt(args)


def ideas(args: argparse.Namespace) -> int:
    """Prints the default ideas for a competition; with a policy, asks it for ideas, and writes them to a file that the option
    `ideas` of training, evaluate and solve takes."""
    from trl_mle.scripts.write_ideas import run

    return run(args)


def check(args: argparse.Namespace) -> int:
    """Looks at each competition as a training run would: its files, answers, metric and prompt. Many are checked side by
    side, and what was made or downloaded is kept. Exit code 1 if one is broken."""
    from trl_mle.scripts.check import check

    return check(args)


def _parsed(arguments: type[Arguments], usage: str, options: list[str], first: str = "") -> Arguments:
    """Parses a command's options into a dataclass, one of whose fields may come first, without its name."""
    from transformers import HfArgumentParser

    if first and options and not options[0].startswith("-"):
        options = [f"--{first}", *options]
    parser = HfArgumentParser(arguments, prog=" ".join(usage.split()[:2]), usage=usage, description=arguments.__doc__)  # type: ignore[arg-type]
    return parser.parse_args_into_dataclasses(options)[0]


def evaluate(args: argparse.Namespace) -> int:
    """Samples programs from policies, executes and grades them, and compares the policies."""
    from trl_mle.evaluation.evaluate import EvaluationArguments, run

    usage = """trl-mle evaluate --policies POLICY ... --competitions COMPETITION ...
                        --output_dir FOLDER [options]"""
    run(_parsed(EvaluationArguments, usage, args.options))
    return 0


def compare(args: argparse.Namespace) -> int:
    """Compares systems across the results of several evaluations, next to the paper's figures."""
    from trl_mle.scripts.compare import compare

    return compare(args)


def train(args: argparse.Namespace) -> int:
    """Trains a policy, configured by a YAML file and the command line."""
    from trl_mle.scripts.launch import launch

    return launch(args.options)


def prepare(args: argparse.Namespace) -> int:
    """Downloads an MLE-bench competition with MLE-bench's own tool, or reports what is missing."""
    from trl_mle.scripts.prepare import prepare

    print(for_terminal(str(prepare(args.competition, args.data_dir))))
    return 0


def solve(args: argparse.Namespace) -> int:
    """Writes the best submission that a policy finds in a given time; --help prints its options."""
    from trl_mle.scripts.solve import SolveArguments, solve

    usage = "trl-mle solve COMPETITION --policy POLICY [options]"
    solve(_parsed(SolveArguments, usage, args.options, "competition"))
    return 0


def export(args: argparse.Namespace) -> int:
    """Writes competitions as Harbor tasks, for TRL's HarborSpec and for Harbor's agents."""
    from trl_mle.competitions import TaskSet
    from trl_mle.environments.harbor import export_harbor
    from trl_mle.execution import Limits

    limits = Limits(args.agent_timeout_s, args.memory_mb, args.cpus)
    tasks = export_harbor(TaskSet(args.competitions, args.data_dir), Path(args.harbor), limits)
    print(for_terminal(f"{len(tasks)} tasks in {args.harbor}/tasks"))
    return 0


def recipes(args: argparse.Namespace) -> int:
    """Lists the recipes that `trl-mle train --config` takes by name. `trl-mle recipes copy NAME` copies one to
    edit."""
    from trl_mle.shipped import copy_recipe, describe_recipe, recipe_names

    if args.name is not None:
        print(copy_recipe(args.name, Path(args.to)))
        return 0
    for what, names in groupby(recipe_names(), describe_recipe):
        print(what, *names, sep="\n  ")
    return 0


def new(args: argparse.Namespace) -> int:
    """Makes a competition from a labelled CSV file: hides the labels of some rows, and describes the data."""
    from trl_mle.scripts.new import new

    stem = re.sub(r"(?i)(\.[a-z]\w{,6})?(\.(gz|bz2|xz|zip))?$", "", Path(args.table).name, count=1)
    folder, test = Path(args.to or stem), Path(args.test) if args.test else None
    direction = None if args.higher_is_better is None else args.higher_is_better == "true"
    options = args.id, args.test_share, test, direction, args.split, args.read_csv
    new(Path(args.table), args.target, args.metric, folder, *options)
    return 0


def import_(args: argparse.Namespace) -> int:
    """Makes competitions of task packages: OpenMLE's, MLE-Dojo's, SandMLE's and the like. The metric that is named scores them;
    no code of theirs runs. Exit code 1 if a package cannot be imported."""
    from trl_mle.scripts.import_packages import import_packages

    direction = None if args.higher_is_better is None else args.higher_is_better == "true"
    return import_packages(Path(args.folder), Path(args.to), args.metric, direction)


def quickstart(args: argparse.Namespace) -> int:
    """Builds a tiny policy, trains it, and compares it before and after: minutes on two CPU cores. With --model, does
    the same with a pretrained model."""
    from trl_mle.competitions import load_competition
    from trl_mle.files import alone_in
    from trl_mle.scripts.quickstart import quickstart, settings
    from trl_mle.starter import check_covered

    folder = Path(args.output_dir)
    chosen = settings(folder, args.resume, competition=args.competition, seed=args.seed, model=args.model)
    # Names first, because the steps before their first use take a minute
    load_competition(chosen.competition, holdout=0.5)
    if chosen.model is None:
        check_covered(chosen.competition)
    with alone_in(folder):
        return quickstart(chosen, folder)


def report(args: argparse.Namespace) -> int:
    """Plots a training run in one self-contained HTML file; also works during the run."""
    from trl_mle.report import write_report

    names = args.names or args.folders
    if len(names) != len(args.folders):
        raise ValueError(
            f"--names: give one name for each run, in the same order (names: {len(names)}, runs: {len(args.folders)})"
        )
    folder = Path(args.report_dir or Path(args.folders[0]) / "report")
    path = write_report([Path(name) for name in args.folders], names, folder)
    print(for_terminal(f"report   {path}\npictures {folder}/*.png"))
    return 0


def watch(args: argparse.Namespace) -> int:
    """Shows a run as it progresses: steps, programs, scores. It only reads files, so the run may be on another
    machine."""
    from trl_mle.scripts.watch import watch

    return watch(Path(args.folder))


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="trl-mle", description=(__doc__ or "").removeprefix("`trl-mle`: "))
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="command")

    # Options that several commands have
    data, limits, holdout, python = (Parser(add_help=False) for _ in range(4))
    data.add_argument("--data_dir", help="folder with MLE-bench's prepared competitions")
    data.add_argument("--json", action="store_true", help="print JSON")
    python.add_argument(
        "--program_python", help="interpreter that runs the programs, with its environment's packages (this one)"
    )
    limits.add_argument("--program_timeout_s", type=float, default=60.0, help="wall-clock limit in seconds (60)")
    limits.add_argument("--program_memory_mb", type=int, default=4096, help="memory limit in MB (4096)")
    limits.add_argument(
        "--sandbox", default="auto", help="auto, a tier that doctor lists, or none for no isolation (auto)"
    )
    limits.add_argument("--ray_address", help="address of a Ray cluster to run programs on, or auto")
    limits.add_argument("--executor", help="your own class to run programs with, such as my_module.MyExecutor")
    holdout.add_argument(
        "--holdout", type=float, default=0.0, help="share of the hidden rows to hold out and score separately (0)"
    )

    def add(function: Any, summary: str, *shared: Parser) -> Parser:
        name, description = function.__name__.rstrip("_"), function.__doc__  # `import` is Python's
        command = commands.add_parser(name, help=summary, description=description, parents=shared)
        command.set_defaults(run=function, parser=command)
        return command

    def add_late(function: Any, summary: str) -> None:
        """Adds a command that parses its own options, because they are known only after slow imports."""
        commands.add_parser(function.__name__, help=summary, add_help=False).set_defaults(run=function)

    add(competitions, "list the competitions", data)
    command = add(grade, "score a submission", holdout, data)
    command.add_argument("competition")
    command.add_argument("submission")
    command = add(run, "run one program as training would", limits, python, holdout, data)
    command.add_argument("competition")
    command.add_argument("solution")
    command = add(prompt, "print the prompt of a competition", limits, python, data)
    command.add_argument("competition")
    command.add_argument("--plan", action="store_true", help="ask for a plan first (begin_program: false)")
    command = add(ideas, "print ideas of what to fit, or have a model write some", data)
    command.add_argument("competition")
    command.add_argument("--policy", help="who writes them: a model's folder or Hub id, or an endpoint's URL")
    command.add_argument("--count", type=int, default=24, help="how many to ask for (24)")
    command.add_argument("--to", help="file to write what a policy answers to (<competition>-ideas.yaml)")
    command = add(check, "look for broken competitions before a run", limits, python, holdout, data)
    command.add_argument("competitions", nargs="+", help="ids or folders, or names of many such as task:train/0-4999")
    command.add_argument("--model", help="the model whose tokens are counted (an estimate, which is rather too high)")
    command.add_argument("--max_prompt_length", type=int, default=1024, help="most tokens of a prompt (1024)")
    command = add(prepare, "download an MLE-bench competition")
    command.add_argument("competition")
    command.add_argument("--data_dir", help="folder to write to (mlebench's own)")
    add_late(train, "train a policy, in one or several processes")
    command = add(recipes, "list or copy training configurations")
    command.set_defaults(name=None)
    copying = command.add_subparsers(metavar="copy").add_parser("copy", help="copy a recipe to edit it")
    copying.add_argument("name")
    copying.add_argument("--to", default=".", help="target file or folder (the current folder)")
    command = add(new, "make your own competition from a CSV file")
    command.add_argument("table", help="CSV file with one row per example")
    command.add_argument(
        "--target", nargs="+", action="extend", required=True, help="column to predict; some metrics take several"
    )
    command.add_argument(
        "--metric", required=True, help="rmse, roc_auc, log_loss, accuracy, …, or your own as my_module.my_metric"
    )
    command.add_argument(
        "--higher_is_better",
        choices=["true", "false"],
        help="whether a larger score is better, for a function of your own",
    )
    command.add_argument("--id", help="column with the rows' ids (one named so, else generated)")
    command.add_argument(
        "--test_share", type=float, default=0.25, help="share of the rows whose labels to hide (0.25)"
    )
    command.add_argument(
        "--split", help="hide the last rows (time:COLUMN) or whole groups (group:COLUMN), not random rows"
    )
    command.add_argument("--test", help="CSV file with unlabelled rows for `solve` to predict")
    command.add_argument(
        "--read_csv",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="how the files are written, as options of pandas.read_csv: sep=';' decimal=, date_format=%%d.%%m.%%Y",
    )
    command.add_argument("--to", help="folder to write to (the file's name without .csv)")
    command = add(import_, "make competitions of other projects' packages")
    command.add_argument("folder", help="a package, or a folder of packages")
    command.add_argument("--to", default="imported", help="folder to write to, with a folder for each (imported)")
    command.add_argument(
        "--metric", required=True, help="the metric of all of them, or your own as my_module.my_metric"
    )
    command.add_argument(
        "--higher_is_better",
        choices=["true", "false"],
        help="whether a larger score is better, for a function of your own",
    )
    command = add(quickstart, "train and compare a tiny policy: no GPU, no download")
    command.add_argument(
        "--competition",
        "--competitions",  # as other commands call it, where argparse also takes the singular
        help="digits, breast-cancer, diabetes, wine, mirror:<id>, or a folder made by `trl-mle new` (digits)",
    )
    command.add_argument(
        "--model",
        help="folder or Hub id of a pretrained model with a chat template, to train with LoRA (a tiny policy)",
    )
    command.add_argument("--seed", type=int, help="seed of the policy and of its training (0)")
    command.add_argument("--output_dir", default="outputs/quickstart", help="folder to write to (outputs/quickstart)")
    command.add_argument(
        "--resume", action="store_true", help="go on where a quickstart was interrupted, with its competition and seed"
    )
    add(doctor, "show how this machine isolates programs", python)
    add_late(evaluate, "sample, execute, grade, and compare policies")
    add_late(solve, "find the best submission in a given time")
    command = add(export, "write competitions as Harbor tasks")
    command.add_argument("--data_dir", help="folder with MLE-bench's prepared competitions")
    command.add_argument("--harbor", required=True, metavar="FOLDER", help="folder to write, which must not exist yet")
    command.add_argument(
        "--competitions", nargs="+", required=True, help="ids or folders, or names of many such as task:train/0-99"
    )
    command.add_argument("--agent_timeout_s", type=float, default=1800.0, help="time of an agent in seconds (1800)")
    command.add_argument("--cpus", type=int, default=1, help="cores of an agent (1)")
    command.add_argument("--memory_mb", type=int, default=4096, help="memory of an agent in MB (4096)")
    command = add(compare, "compare several evaluations in tables")
    command.add_argument(
        "folders", nargs="+", help="output folders of trl-mle evaluate; equal policy names count as runs of one system"
    )
    command.add_argument(
        "--runs",
        nargs="+",
        default=[],
        help="output folders of training, whose programs stand beside the sampled ones",
    )
    command.add_argument("--markdown", help="file to write all tables to, as Markdown")
    command.add_argument("--json", action="store_true", help="print JSON")
    command = add(report, "plot a training run")
    command.add_argument("folders", nargs="+", help="output folders of runs")
    command.add_argument(
        "--names", nargs="+", help="a name for each; runs with equal names are shown as mean and band"
    )
    command.add_argument("--report_dir", help="folder to write to (report/ in the first folder)")
    command = add(watch, "follow a run in the terminal")
    command.add_argument("folder", help="output folder of a run")
    return parser


def main() -> None:
    never_fail_to_print()
    args, options = make_parser().parse_known_args()
    args.options = options
    if options and args.run not in (evaluate, solve, train):
        args.parser.error(f"unrecognized arguments: {' '.join(options)}")
    try:
        code = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # for example, piped into head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        code = 0  # rich has done the same, and ended with 1
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if _can_be_mended(error):
            print(f"trl-mle: error: {terminal_line(str(error))}", file=sys.stderr)
            code = 2
        else:  # ours; Python's own exit code, 1, would be an answer: invalid, or no sandbox works
            traceback.print_exc()
            code = 70
    sys.exit(code)


def _can_be_mended(error: Exception) -> bool:
    """Whether an error is the user's to mend."""
    from trl_mle.competitions import GradingFailed
    from trl_mle.execution import SandboxError

    # A CompetitionError is a ValueError
    return isinstance(error, (ValueError, OSError, ImportError, SandboxError, GradingFailed))


if __name__ == "__main__":
    main()
