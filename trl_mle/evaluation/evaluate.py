"""`trl-mle evaluate`: samples policies, and executes, grades and compares their programs."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from trl_mle import __version__
from trl_mle.competitions import Competition, TaskSet
from trl_mle.evaluation.harness import SamplingArguments, check_counts, sample_programs
from trl_mle.evaluation.policies import check_policy, completion_length
from trl_mle.evaluation.result_tables import K, best_of_k_point, chosen_by_validation, to_markdown
from trl_mle.evaluation.results import best_program, failures, figures, judged, reported_score
from trl_mle.execution.options import make_executor, option
from trl_mle.files import alone_in, write_whole
from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards import Evaluation
from trl_mle.rewards.progress import trained_with
from trl_mle.showing import PlainConsole, for_markdown, for_terminal, markdown_code, metric_name, number, terminal_line


LEAST_REACHED = 1.0  # milestones on average; training that led from no valid program to many began with 2.2


@dataclass(kw_only=True)
class EvaluationArguments(SamplingArguments):
    """Samples programs from policies, executes and grades them, and compares the policies. Run it again to resume."""

    competitions: list[str] = option(MISSING, "Ids, folders, ranges or lists of the competitions.")
    output_dir: str = option(MISSING, "Folder for the results. Existing results are reused.")
    policies: list[str] = option(
        MISSING,
        "Policies that write the programs: folders or Hub ids of models or LoRA adapters, or URLs of "
        "OpenAI-compatible endpoints, optionally followed by `#` and the model's name.",
    )
    names: list[str] = option([], "A name for each policy, in this order, for the tables.")
    holdout: float = option(
        0.0,
        "Share of the hidden rows to hold out, for reports; the best programs are chosen on the others. Use the value "
        "of training.",
    )
    num_samples: int = option(128, "Programs per policy and competition.")
    seed: int = option(1_000_000, "Seed of the sampling; far from the seeds of training.")
    batch_size: int = option(64, "Programs sampled at a time.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(num_samples=self.num_samples)
        if not self.names:
            self.names = [name if name.strip("./") else Path(name).resolve().name for name in self.policies]
        if len(self.names) != len(self.policies):
            raise ValueError(f"--names: {len(self.names)} names for {len(self.policies)} policies: give one each")
        if len({file_name(name) for name in self.names} - {"", ".", ".."}) != len(self.names):
            raise ValueError(f"--names must be file names that differ: {', '.join(self.names)}")


def file_name(name: str) -> str:
    return re.sub(r"\s+", "-", re.sub(r"[/:#?]+", "--", name))


def run(args: EvaluationArguments) -> None:
    competitions = list(TaskSet(args.competitions, args.data_dir, args.holdout).values())
    output_dir = Path(args.output_dir)
    for name in args.policies:
        check_policy(name)  # refuses a wrong name before anything is written
        trained = trained_with(name)
        if {*trained.get("competitions", [])} & {*args.competitions} and trained["holdout"] != args.holdout:
            note = f"{terminal_line(name)}: other rows were held out of its training (--holdout {trained['holdout']})"
            PlainConsole(stderr=True).print(note, soft_wrap=True)
    length = args.max_completion_length or completion_length(args.policies)
    programs: dict[str, dict[str, list[Evaluation]]] = {competition.id: {} for competition in competitions}
    with make_executor(args) as executor, alone_in(output_dir):
        for competition in competitions:
            executor.check(competition)
        for name, policy_name in zip(args.names, args.policies, strict=True):
            log, best = output_dir / f"{file_name(name)}.jsonl", output_dir / "best_solutions" / file_name(name)
            settings = {"num_samples": args.num_samples, "holdout": args.holdout}
            for harness in args.harnesses(policy_name, length, competitions, executor, log, best, settings):
                programs[harness.competition.id][name] = sample_programs(harness, args.num_samples)
            del harness  # the next policy may not fit into memory beside it
        rows = [
            figures(name, competition, programs[competition.id][name])
            for name in args.names
            for competition in competitions
        ]
        report = {"seed": args.seed, "num_samples": args.num_samples, "rows": rows}
        write_whole(output_dir / "results.json", (json.dumps(report, indent=2) + "\n").encode())
        (output_dir / "results.md").write_text(introduction(args) + to_markdown(rows), encoding="utf-8")
        show(args, competitions, rows, programs)


def introduction(args: EvaluationArguments) -> str:
    policies = "".join(
        f"- {for_markdown(name)}: {markdown_code(policy)}\n"
        for name, policy in zip(args.names, args.policies, strict=True)
    )
    rows = f"{args.holdout:g} of the hidden rows held out" if args.holdout else "no rows held out"
    return (
        f"# Evaluation\n\n{policies}- {args.num_samples} programs each, seed {args.seed}, {rows}, at most "
        f"{args.program_timeout_s:g} s and {args.program_memory_mb} MB a program\n- trl_mle {__version__}\n\n"
    )


def show(
    args: EvaluationArguments,
    competitions: list[Competition],
    rows: list[dict[str, Any]],
    programs: dict[str, dict[str, list[Evaluation]]],
) -> None:
    console = PlainConsole()
    output_dir = Path(args.output_dir)
    files: list[tuple[str, Any]] = [("figures", output_dir / "results.json")]
    for competition in competitions:
        of_competition = [row for row in rows if row["competition"] == competition.id]
        console.print(comparison_table(competition, of_competition))
        for row in of_competition:
            evaluations = judged(programs[competition.id][row["policy"]])
            if evaluations and not row["num_valid"]:
                console.print(none_valid(row["policy"], evaluations))
        best = best_program([one for name in args.names for one in programs[competition.id][name]], competition)
        if best is not None:
            suffix = f"-{competition.slug}" if len(competitions) > 1 else ""
            path, source = output_dir / f"best_solution{suffix}.py", best.source or ""
            path.write_text(source, encoding="utf-8", errors="backslashreplace")
            where = " on held-out rows" if competition.holdout else ""
            title = f"best program: {competition.metric} {number(reported_score(best), 4)}{where}"
            shown = Syntax(for_terminal(source.strip()), "python", word_wrap=True)
            console.print(Panel(shown, title=Text(terminal_line(title))))
            files.append(("best program", path))
    if ours := sum(row["num_failures_of_ours"] for row in rows):
        print(f"our infrastructure failed for {ours} programs: run the command again to retry them", file=sys.stderr)
    for what, where in files:
        console.print(f"{what:<16} {where}", soft_wrap=True)


def none_valid(name: str, evaluations: Sequence[Evaluation]) -> str:
    """Why no program of a policy is valid, and whether training has anything to begin with."""
    reached = fmean(len(evaluation.milestones) for evaluation in evaluations)
    hint = "" if reached >= LEAST_REACHED else ", so training has hardly anything to begin with: take a larger model"
    reasons = failures(evaluations)[0]
    return f"{name}: none is valid; {reasons}; they reach {reached:.1f} of {len(MILESTONES)} milestones{hint}"


def comparison_table(competition: Competition, rows: list[dict[str, Any]]) -> Table:
    count = max(row["num_samples"] for row in rows)  # fewer if our infrastructure failed
    metric = metric_name(competition.metric, competition.higher_is_better)
    table = Table(title=f"{competition.id}, {metric}: {count} sampled programs")
    for column in ("policy", "valid", f"best of\n{K}", "mean of\nvalid", f"best of\n{count}", "mean\nΔt (s)"):
        table.add_column(column, overflow="fold", justify="left" if column == "policy" else "right")
    for row in rows:
        table.add_row(
            row["policy"], "-" if row["valid_rate"] is None else f"{row['valid_rate']:.0%}",
            _with_interval(best_of_k_point(row)), number(row["mean_score"]), number(row["best_score"]),
            number(row["mean_duration_s"], 2),
        )  # fmt: skip
    table.caption_justify = "left"
    table.caption = f"best of {K}: the mean over all sets of {K} with a valid program, and its 95% interval"
    if chosen_by_validation(rows):
        table.caption += "; scores on held-out rows, the best chosen on validation rows"
    return table


def _with_interval(point: Mapping[str, Any] | None) -> str:
    if point is None or point["score"] is None:
        return "-"
    return f"{number(point['score'])} ({number(point['low'])}–{number(point['high'])})"
