"""
Samples programs from one or several policies, executes and grades them, and compares the policies in a table. With
`--improve true` each valid program is then improved once, and the better of the two is kept.

python recipes/evaluate_mle.py --policies outputs/quickstart/starter outputs/quickstart/policy --names before after \
    --competition digits --output_dir outputs/quickstart/evaluation
"""

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from transformers import AutoConfig, HfArgumentParser

from trl_mle.competitions import Competition, CompetitionError, load_competition
from trl_mle.evaluation import (
    Improvement,
    Policy,
    Summary,
    best_evaluation,
    count_executed,
    evaluate_policy,
    improve_each,
    plot_learning_curves,
    save_evaluations,
    save_improvements,
    summarize,
    summarize_improvements,
)
from trl_mle.execution import LocalExecutor, SandboxError
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import Evaluation, MLEReward


@dataclass
class EvaluationArguments:
    """Arguments of the evaluation."""

    policies: list[str] = field(metadata={"help": "Folders or Hub ids of the policies to compare."})
    competition: str = field(metadata={"help": "Id of the competition."})
    output_dir: str = field(metadata={"help": "Folder for the results."})
    names: list[str] | None = field(default=None, metadata={"help": "A name for each policy, for the table."})
    data_dir: str | None = field(default=None, metadata={"help": "Where MLE-bench's prepared competitions lie."})
    num_samples: int = field(default=32, metadata={"help": "Programs sampled per policy."})
    seed: int = field(default=1_000_000, metadata={"help": "Seed of the sampling; far from those of training."})
    improve: bool = field(default=False, metadata={"help": "Whether to improve each valid program once, too."})
    max_prompt_length: int = field(default=1024, metadata={"help": "Length limit of an improve prompt, in tokens."})
    max_completion_length: int = field(default=256, metadata={"help": "Length limit of a completion, in tokens."})
    program_timeout_s: float = field(default=60.0, metadata={"help": "Wall-clock limit of a program, in seconds."})
    program_memory_mb: int = field(default=4096, metadata={"help": "Memory limit of a program, in MB."})
    max_parallel_programs: int | None = field(
        default=None, metadata={"help": "Slots; defaults to the number of cores."}
    )
    sandbox: str = field(default="auto", metadata={"help": "`auto`, or `none` to run programs without isolation."})


def number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def comparison_table(competition: Competition, names: list[str], summaries: list[Summary]) -> Table:
    arrow = "↑" if competition.higher_is_better else "↓"
    table = Table(title=f"{competition.id}: {summaries[0].num_samples} sampled programs")
    for column in ("policy", "valid", f"mean {competition.metric} {arrow}", f"best {arrow}", "mean Δt (s)"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for name, summary in zip(names, summaries, strict=True):
        table.add_row(
            name, f"{summary.valid_rate:.0%}", number(summary.mean_score), number(summary.best_score),
            number(summary.mean_duration_s, 2),
        )  # fmt: skip
    return table


def evaluate(
    args: EvaluationArguments, name: str, competition: Competition, reward: MLEReward
) -> tuple[list[Evaluation], list[Improvement]]:
    """The programs of one policy, and what became of them when it was asked to improve them."""
    policy = Policy(name, args.seed)
    limits = {
        "max_new_tokens": args.max_completion_length,
        "timeout_s": args.program_timeout_s,
        "memory_mb": args.program_memory_mb,
    }
    evaluations = evaluate_policy(policy, competition, reward, args.num_samples, **limits)
    if not args.improve:
        return evaluations, []
    return evaluations, improve_each(
        policy, competition, reward, evaluations, max_prompt_tokens=args.max_prompt_length, **limits
    )


def improvement_table(competition: Competition, results: dict[str, dict]) -> Table:
    arrow = "↑" if competition.higher_is_better else "↓"
    table = Table(title=f"{competition.id}: each valid program improved once, the better one kept")
    columns = ("policy", "kept, chosen by", "choices", "executed", "valid", f"mean {competition.metric} {arrow}", f"best {arrow}")  # fmt: skip
    for column in columns:
        table.add_column(column, justify="left" if column in columns[:2] else "right")
    for name, result in results.items():
        scratch = result | {"chosen_by": "(not improved)", "num_choices": 0}
        kept = [row | {"num_executed": result["improvement"]["num_executed"]} for row in result["improvement"]["kept"]]
        for row in (scratch, *kept):
            table.add_row(
                name if row is scratch else "", row["chosen_by"], str(row["num_choices"]), str(row["num_executed"]),
                f"{row['valid_rate']:.0%}", number(row["mean_score"]), number(row["best_score"]),
            )  # fmt: skip
        table.add_section()
    table.caption = (
        "validation: by the score that both programs report of themselves, by the graded one where they do not; "
        "test: by the graded score, which looks at the hidden answers"
    )
    return table


def main(args: EvaluationArguments) -> None:
    console = Console()
    names = args.names or args.policies
    if args.num_samples < 1:
        raise ValueError(f"--num_samples must be at least 1, got {args.num_samples}")
    if len(names) != len(args.policies):
        raise ValueError(f"--names has {len(names)} names for {len(args.policies)} policies")
    competition = load_competition(args.competition, data_dir=args.data_dir)
    for policy in args.policies:
        AutoConfig.from_pretrained(policy)  # a wrong name ends here, before anything is written
    output_dir = Path(args.output_dir)
    executor = LocalExecutor(
        max_parallel=args.max_parallel_programs,
        timeout_s=args.program_timeout_s,
        memory_mb=args.program_memory_mb,
        sandbox=args.sandbox,
    )
    with executor:
        output_dir.mkdir(parents=True, exist_ok=True)
        reward = MLEReward([competition], executor, AstInstrumenter())
        results, summaries, everything = {}, [], []
        for name, policy in zip(names, args.policies, strict=True):
            evaluations, improvements = evaluate(args, policy, competition, reward)
            file_name = name.replace("/", "--")
            save_evaluations(evaluations, output_dir / f"{file_name}.jsonl")
            summaries.append(summarize(evaluations, competition.higher_is_better))
            results[name] = summaries[-1].to_dict() | {"num_executed": count_executed(evaluations)}
            everything += evaluations
            if args.improve:
                save_improvements(improvements, output_dir / f"{file_name}-improved.jsonl")
                results[name]["improvement"] = summarize_improvements(improvements)
                everything += [item.improved for item in improvements if item.improved is not None]

    console.print(comparison_table(competition, names, summaries))
    if args.improve:
        console.print(improvement_table(competition, results))
    report = {"competition": competition.id, "metric": competition.metric, "seed": args.seed, "policies": results}
    (output_dir / "results.json").write_text(json.dumps(report, indent=2) + "\n")
    files = [("figures", output_dir / "results.json")]

    best = best_evaluation(everything, competition.higher_is_better)
    if best is not None and best.source is not None and best.score is not None:
        (output_dir / "best_solution.py").write_text(best.source)
        title = f"best program: {competition.metric} {best.score.value:.4f} in {best.duration_s:.2f} s"
        console.print(Panel(Syntax(best.source.strip(), "python", word_wrap=True), title=title))
        files.append(("best program", output_dir / "best_solution.py"))
    for name, policy in zip(names, args.policies, strict=True):
        trainer_state = Path(policy) / "trainer_state.json"
        if trainer_state.exists():
            curves = output_dir / "learning_curves.png"
            plot_learning_curves(trainer_state, curves, f"{competition.id}: {name}")
            files.append(("learning curves", curves))
    files += [(f"policy {name}", Path(policy)) for name, policy in zip(names, args.policies, strict=True)]
    for what, path in files:
        console.print(f"{what:<16} {path}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    parser = HfArgumentParser((EvaluationArguments,), usage=argparse.SUPPRESS)
    try:
        main(*parser.parse_args_into_dataclasses())
    except (CompetitionError, SandboxError, ValueError, OSError) as error:
        print(f"{Path(sys.argv[0]).name}: error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
