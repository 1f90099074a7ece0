"""`trl-mle grade`, `run` and `prompt`: score a submission, run and score a program, or print a prompt."""

import argparse
import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from trl_mle.competitions import Competition, Score, load_competition
from trl_mle.competitions.medals import human_rank, medal, medal_thresholds
from trl_mle.execution import Outcome
from trl_mle.execution.options import ExecutorArguments, make_executor
from trl_mle.instrumentation import MILESTONES, AstInstrumenter
from trl_mle.prompts import estimate_tokens, scratch_prompt
from trl_mle.rewards import MLEReward
from trl_mle.scripts.printing import facts_table, print_json
from trl_mle.showing import PlainConsole, for_terminal, metric_name, number


def grade(args: argparse.Namespace) -> int:
    """Scores a submission; exit code 1 if it is invalid."""
    competition = load_competition(args.competition, args.data_dir, args.holdout)
    if not Path(args.submission).exists():
        raise FileNotFoundError(f"there is no submission {args.submission}")
    score = competition.grade(Path(args.submission).read_bytes())
    thresholds = medal_thresholds(competition)
    won = beaten = None
    if thresholds is not None and score.full is not None:
        won = medal(score.full, thresholds, competition.higher_is_better)
        beaten = human_rank(competition, score.full)
    if args.json:
        print_json(
            _graded(competition, score)
            | {
                "error": score.error,
                "medal": won,
                "thresholds": thresholds and thresholds._asdict(),
                "human_rank": beaten,
            }
        )
        return 0 if score.valid else 1
    table = facts_table()
    table.add_row("competition", competition.id)
    if score.valid:
        _add_score(table, competition, score)
        if thresholds is not None:
            figures = ", ".join(f"{name} {number(value, 5)}" for name, value in thresholds._asdict().items())
            table.add_row("medal", f"{won or 'none'} ({figures})")
        if beaten is not None:
            table.add_row("human rank", f"better than {beaten:.1%} of Kaggle's teams")
    else:
        table.add_row("invalid", score.error or "")
    PlainConsole().print(table)
    return 0 if score.valid else 1


def one_program(args: argparse.Namespace) -> ExecutorArguments:
    """The options of a command that runs one program at a time."""
    names = ("program_timeout_s", "program_memory_mb", "program_python", "sandbox", "ray_address", "executor")
    return ExecutorArguments(max_parallel_programs=1, **{name: getattr(args, name) for name in names})


def run(args: argparse.Namespace) -> int:
    """Runs one program as training would; exit code 1 if it makes no valid submission."""
    competition = load_competition(args.competition, args.data_dir, args.holdout)
    if not Path(args.solution).exists():
        raise FileNotFoundError(f"there is no program {args.solution}")
    if args.solution.endswith(".ipynb"):
        raise ValueError(f"{args.solution} is a notebook: make it a program with `jupyter nbconvert --to script`")
    try:
        source = Path(args.solution).read_text(encoding="utf-8").strip("\n")  # as extracted from a completion
    except UnicodeDecodeError as error:
        raise ValueError(f"{args.solution} is not in UTF-8: {error}") from error
    with make_executor(one_program(args)) as executor:
        executor.check(competition)
        reward = MLEReward([competition], executor, AstInstrumenter())
        evaluation = reward.evaluate_program(source if source.strip() else None, competition)
    if args.json:
        facts = ("reward", "detail", "duration_s", "cpu_s", "milestones", "output")
        ran = {"outcome": str(evaluation.outcome)} | {name: getattr(evaluation, name) for name in facts}
        print_json(_graded(competition, evaluation.score) | ran)
        return 0 if evaluation.valid else 1
    table = facts_table()
    table.add_row("competition", competition.id)
    ended = str(evaluation.outcome) if evaluation.outcome != Outcome.OK else "no valid submission"
    table.add_row("outcome", "valid submission" if evaluation.valid else ended)
    if evaluation.detail:
        table.add_row("", evaluation.detail)
    if evaluation.duration_s is not None:
        table.add_row("Δt", f"{evaluation.duration_s:.2f} s ({evaluation.cpu_s or 0:.2f} s of CPU time)")
    missed = [name for name in MILESTONES if name not in evaluation.milestones]
    table.add_row("milestones", f"{len(evaluation.milestones)} of {len(MILESTONES)}")
    if missed:
        table.add_row("", f"not reached: {', '.join(missed)}")
    if evaluation.score is not None and evaluation.score.value is not None:
        _add_score(table, competition, evaluation.score)
    table.add_row("reward", "none" if evaluation.reward is None else f"{evaluation.reward:.5g}")
    console = PlainConsole()
    console.print(table)
    if evaluation.output:
        console.rule("output")
        console.print(evaluation.output)
    return 0 if evaluation.valid else 1


def _graded(competition: Competition, score: Score | None) -> dict[str, Any]:
    return {
        "competition": competition.id,
        "metric": competition.metric,
        "higher_is_better": competition.higher_is_better,
        "valid": score is not None and score.valid,
        "score": score and score.value,
        "held_out": score and score.held_out,
        "full": score and score.full,
    }


def _add_score(table: Table, competition: Competition, score: Score) -> None:
    table.add_row(
        "score", f"{number(score.value, 5)} ({metric_name(competition.metric, competition.higher_is_better)})"
    )
    if score.held_out is not None:
        table.add_row("held out", number(score.held_out, 5))
        table.add_row("all rows", number(score.full, 5))


def show_prompt(args: argparse.Namespace) -> int:
    """Prints the prompt that the arguments of the command ask for."""
    competition = load_competition(args.competition, args.data_dir)
    with make_executor(one_program(args)) as executor:
        messages = scratch_prompt(competition, executor.limits, begin_program=not args.plan)
    tokens = sum(estimate_tokens(message["content"]) for message in messages)
    if args.json:
        print_json({"competition": competition.id, "prompt": messages, "estimated_tokens": tokens})
        return 0
    print("\n\nThe answer begins with:\n\n".join(for_terminal(message["content"]) for message in messages))
    print(f"at most {tokens} tokens of Qwen2.5, without its chat template", file=sys.stderr)
    return 0
