"""`trl-mle`: train and evaluate policies that write programs that solve competitions."""

import argparse
import os
import pkgutil
import sys
import traceback
from importlib.metadata import version
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
def prepare(args: argparse.Namespace) -> int:
    from trl_mle.scripts.prepare import prepare

    print(for_terminal(str(prepare(args.competition, args.data_dir))))
    return 0


def recipes(args: argparse.Namespace) -> int:
    from trl_mle.shipped import copy_recipe, recipe_names

    names = recipe_names() if args.name is None else [copy_recipe(args.name, Path(args.to))]
    print(*names, sep="\n")
    return 0


def export(args: argparse.Namespace) -> int:
    from trl_mle.competitions import TaskSet
    from trl_mle.environments.harbor import export_harbor
    from trl_mle.execution import Limits

    limits = Limits(args.agent_timeout_s, args.memory_mb, args.cpus)
    tasks = export_harbor(TaskSet(args.competitions, args.data_dir), Path(args.harbor), limits)
    print(for_terminal(f"{len(tasks)} tasks in {args.harbor}/tasks"))
    return 0


def train(args: argparse.Namespace) -> int:
    from trl_mle.scripts.launch import launch

    return launch(args.options)


def evaluate(args: argparse.Namespace) -> int:
    from trl_mle.evaluation.evaluate import EvaluationArguments, run

    usage = """trl-mle evaluate --policies POLICY ... --competitions COMPETITION ...
                        --output_dir FOLDER [options]"""
    run(_parsed(EvaluationArguments, usage, args.options))
    return 0


def solve(args: argparse.Namespace) -> int:
    from trl_mle.scripts.solve import SolveArguments, solve

    options = args.options
    if options and not options[0].startswith("-"):
        options = ["--competition", *options]
    solve(_parsed(SolveArguments, "trl-mle solve COMPETITION --policy POLICY [options]", options))
    return 0


def report(args: argparse.Namespace) -> int:
    from trl_mle.report import write_report

    folder = Path(args.report_dir or Path(args.folder) / "report")
    path = write_report(Path(args.folder), folder)
    print(for_terminal(f"report   {path}\npictures {folder}/*.png"))
    return 0


def true_or_false(text: str) -> bool:
    return bool(("false", "true").index(text))  # a ValueError is argparse's to tell


def _parsed(arguments: type[Arguments], usage: str, options: list[str]) -> Arguments:
    from transformers import HfArgumentParser

    kind: Any = arguments
    parser = HfArgumentParser(kind, prog=" ".join(usage.split()[:2]), usage=usage, description=arguments.__doc__)
    return parser.parse_args_into_dataclasses(options)[0]


def kept_help(command: str) -> str | None:
    """The help of a command with slow imports, if docs/_build/help.py wrote it for the installed libraries."""
    text = (Path(__file__).parent / "help" / f"{command}.txt").read_text(encoding="utf-8")
    return text if text.endswith(f"({libraries()})\n") else None


def libraries() -> str:
    return ", ".join(f"{name} {version(name)}" for name in ("trl", "transformers"))


def make_parser() -> Parser:
    parser = Parser(prog="trl-mle", description=(__doc__ or "").removeprefix("`trl-mle`: "))
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(name: str, run: Any, summary: str, details: str = "", *shared: Parser) -> Parser:
        """Adds a command: a function of the arguments that returns the exit code, or its name below `trl_mle`."""
        description = f"{summary[0].upper()}{summary[1:]}. {details}"
        command = commands.add_parser(name, help=summary, description=description, parents=shared)
        command.set_defaults(run=run, parser=command)
        return command

    def add_late(run: Any, summary: str) -> None:
        """Adds a command that parses its own options, because they are known only after slow imports."""
        commands.add_parser(run.__name__, help=summary, add_help=False).set_defaults(run=run)

    _add_commands_for_competitions(add)
    add_late(train, "train a policy, in one or several processes")
    add_late(evaluate, "sample, execute, grade, and compare policies")
    add_late(solve, "find the best submission in a given time")
    _add_commands_for_runs(add)
    return parser


def _shared() -> tuple[Parser, ...]:
    data, as_json, holdout, limits, metric = (Parser(add_help=False) for _ in range(5))
    data.add_argument("--data_dir", help="folder with MLE-bench's prepared competitions")
    as_json.add_argument("--json", action="store_true", help="print JSON")
    holdout.add_argument("--holdout", type=float, default=0.0, help="share of the hidden rows to hold out (0)")
    limits.add_argument("--program_timeout_s", type=float, default=60.0, help="wall-clock limit in seconds (60)")
    limits.add_argument("--program_memory_mb", type=int, default=4096, help="memory limit in MB (4096)")
    limits.add_argument("--program_python", help="interpreter that runs the programs, with its packages (this one)")
    limits.add_argument("--sandbox", default="auto", help="auto, a tier that doctor lists, or none for no isolation")
    limits.add_argument("--ray_address", help="address of a Ray cluster to run programs on, or auto")
    limits.add_argument("--executor", help="your own class to run programs with, such as my_module.MyExecutor")
    metric.add_argument(
        "--metric", required=True, help="rmse, roc_auc, accuracy, …, or your own as my_module.my_metric"
    )
    metric.add_argument("--higher_is_better", type=true_or_false, help="for a metric of your own: true or false")
    return data, as_json, holdout, limits, metric


def _add_commands_for_competitions(add: Any) -> None:
    data, as_json, holdout, limits, metric = _shared()
    many = "ids or folders, or names of many such as task:train/0-4999"
    add("competitions", "scripts.listing.list_all", "list the competitions", "", data, as_json)
    details, program = "Exit code 1 if the submission is invalid.", (limits, holdout, data, as_json)
    command = add("grade", "scripts.grade.grade", "score a submission", details, holdout, data, as_json)
    command.add_argument("competition")
    command.add_argument("submission")
    command = add("run", "scripts.grade.run", "run one program as training would", details, *program)
    command.add_argument("competition")
    command.add_argument("solution", help="a program, or a notebook (.ipynb), whose code cells run as one")
    command.add_argument("--output", help="file for a valid submission, of the rows without labels if there are any")
    details = "As training gives it to a model, with the packages that programs can import here."
    command = add(
        "prompt", "scripts.grade.show_prompt", "print a competition's prompt", details, limits, data, as_json
    )
    command.add_argument("competition")
    command.add_argument("--plan", action="store_true", help="ask for a plan first (begin_program: false)")
    command = add(
        "ideas", "scripts.write_ideas.run", "print ideas of what to fit, or have them written", "", data, as_json
    )
    command.add_argument("competition")
    command.add_argument("--policy", help="who writes them: a model's folder or Hub id, or an endpoint's URL")
    command.add_argument("--count", type=int, default=24, help="how many to ask for (24)")
    command.add_argument("--to", help="file to write what a policy answers to (<competition>-ideas.yaml)")
    details = "Many are checked side by side, and what was made or downloaded is kept. Exit code 1 if one is broken."
    command = add("check", "scripts.check.check", "look for broken competitions", details, *program)
    command.add_argument("competitions", nargs="+", help=many)
    command.add_argument("--model", help="the model whose tokens are counted (an estimate, which is rather too high)")
    command.add_argument("--max_prompt_length", type=int, default=1024, help="most tokens of a prompt (1024)")
    add("prepare", prepare, "download an MLE-bench competition", "", data).add_argument("competition")
    command = add("new", "scripts.new.new", "make your own competition from a CSV file", "", metric)
    command.add_argument("table", help="CSV file with one row per example")
    command.add_argument("--target", nargs="+", action="extend", required=True, help="column to predict, or several")
    command.add_argument("--id", help="column with the rows' ids (one named so, else generated)")
    command.add_argument("--test_share", type=float, default=0.25, help="share of rows whose labels to hide (0.25)")
    command.add_argument("--split", help="hide the last rows (time:COLUMN) or whole groups (group:COLUMN)")
    command.add_argument("--test", help="CSV file with unlabelled rows for `solve` to predict")
    command.add_argument(
        "--read_csv",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="how the files are written, as options of pandas.read_csv: sep=';' decimal=, date_format=%%d.%%m.%%Y",
    )
    command.add_argument("--to", help="folder to write to (the file's name without .csv)")
    details = "No code of theirs runs. Exit code 1 if a package cannot be imported."
    summary = "make competitions of other projects' packages"
    command = add("import", "scripts.import_packages.import_packages", summary, details, metric)
    command.add_argument("folder", help="a package, or a folder of packages")
    command.add_argument("--to", default="imported", help="folder to write to, with a folder for each (imported)")
    command = add("export", export, "write competitions as Harbor tasks", "", data)
    command.add_argument("--harbor", required=True, metavar="FOLDER", help="folder to write, which must not exist yet")
    command.add_argument("--competitions", nargs="+", required=True, help=many)
    command.add_argument("--agent_timeout_s", type=float, default=1800.0, help="time of an agent in seconds (1800)")
    command.add_argument("--cpus", type=int, default=1, help="cores of an agent (1)")
    command.add_argument("--memory_mb", type=int, default=4096, help="memory of an agent in MB (4096)")


def _add_commands_for_runs(add: Any) -> None:
    details = "Exit code 1 if no sandbox works, 2 if this is unknown because a test did not end."
    command = add("doctor", "scripts.doctor.doctor", "show how this machine isolates programs", details)
    command.add_argument("--program_python", help="interpreter that runs the programs, with its packages (this one)")
    details = "Minutes on two CPU cores. With --model, the same with a pretrained model."
    command = add("quickstart", "scripts.quickstart.run", "train and compare a tiny policy", details)
    command.add_argument(
        "--competition",
        "--competitions",  # as other commands call it, where argparse also takes the singular
        help="digits, breast-cancer, diabetes, wine, mirror:<id>, or a folder made by `trl-mle new` (digits)",
    )
    command.add_argument("--model", help="folder or Hub id of a pretrained model to train with LoRA (a tiny policy)")
    command.add_argument("--seed", type=int, help="seed of the policy and of its training (0)")
    command.add_argument("--output_dir", default="outputs/quickstart", help="folder to write to (outputs/quickstart)")
    command.add_argument("--resume", action="store_true", help="go on where a quickstart was interrupted")
    command = add("recipes", recipes, "list or copy training configurations")
    command.set_defaults(name=None)
    copying = command.add_subparsers(metavar="copy").add_parser("copy", help="copy a recipe to edit it")
    copying.add_argument("name")
    copying.add_argument("--to", default=".", help="target file or folder (the current folder)")
    command = add("compare", "scripts.compare.compare", "compare several evaluations in tables")
    command.add_argument("folders", nargs="+", help="output folders of evaluate; equal names are runs of one system")
    command.add_argument("--runs", nargs="+", default=[], help="output folders of training, to show beside these")
    command.add_argument("--markdown", help="file to write all tables to, as Markdown")
    command = add("report", report, "plot a training run", "One self-contained HTML file, also during the run.")
    command.add_argument("folder", help="output folder of a run")
    command.add_argument("--report_dir", help="folder to write to (report/ in the run's folder)")
    command = add("watch", "scripts.watch.watch", "follow a run in the terminal", "It only reads files.")
    command.add_argument("folder", help="output folder of a run")


def main() -> None:
    never_fail_to_print()
    args, options = make_parser().parse_known_args()
    args.options = options
    if {"-h", "--help"} & {*options} and (text := kept_help(args.run.__name__)) is not None:
        print(text, end="")
        return
    if options and args.run not in (evaluate, solve, train):
        args.parser.error(f"unrecognized arguments: {' '.join(options)}")
    try:
        run = pkgutil.resolve_name(f"trl_mle.{args.run}") if isinstance(args.run, str) else args.run
        code = run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # for example, piped into head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
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
    """Whether an error is the user's to mend; a CompetitionError is a ValueError."""
    from trl_mle.competitions import GradingFailed
    from trl_mle.execution import SandboxError

    return isinstance(error, (ValueError, OSError, ImportError, SandboxError, GradingFailed))


if __name__ == "__main__":
    main()
