"""`trl-mle grade`, `run` and `prompt`: score a submission, run and score a program, or print a prompt."""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.table import Table

from trl_mle.competitions import Competition, Score, load_competition
from trl_mle.competitions.medals import human_rank, medal, medal_thresholds
from trl_mle.competitions.own import final_competition
from trl_mle.execution import Outcome, SandboxError
from trl_mle.execution.options import ExecutorArguments, make_executor
from trl_mle.files import write_whole
from trl_mle.instrumentation import MILESTONES
from trl_mle.prompts import estimate_tokens, scratch_prompt
from trl_mle.prompts.extract import notebook_program
from trl_mle.rewards import MLEReward
from trl_mle.scripts.printing import facts_table, print_json
from trl_mle.showing import PlainConsole, for_terminal, metric_name, number


def grade(args: argparse.Namespace) -> int:
    """Scores a submission; exit code 1 if it is invalid."""
    competition = load_competition(args.competition, args.data_dir, args.holdout)
    score = competition.grade(Path(args.submission).read_bytes())
    thresholds, won, beaten = medal_thresholds(competition), None, None
    if thresholds is not None and score.full is not None:
        won = medal(score.full, thresholds, competition.higher_is_better)
        beaten = human_rank(competition, score.full)
    facts = {"error": score.error, "medal": won, "thresholds": thresholds and thresholds._asdict()}
    table = facts_table()
    table.add_row("competition", competition.id)
    _add_score(table, competition, score)
    if thresholds is not None and score.valid:
        figures = ", ".join(f"{name} {number(value, 5)}" for name, value in thresholds._asdict().items())
        table.add_row("medal", f"{won or 'none'} ({figures})")
    if beaten is not None:
        table.add_row("human rank", f"better than {beaten:.1%} of Kaggle's teams")
    return _report(competition, score, facts | {"human_rank": beaten}, table, args.json)


def one_program(args: argparse.Namespace) -> ExecutorArguments:
    """The options of a command that runs one program at a time."""
    names = ("program_timeout_s", "program_memory_mb", "program_python", "sandbox", "ray_address", "executor")
    return ExecutorArguments(max_parallel_programs=1, **{name: getattr(args, name) for name in names})


def run(args: argparse.Namespace) -> int:
    """Runs one program as training would; exit code 1 if it makes no valid submission."""
    competition = load_competition(args.competition, args.data_dir, args.holdout)
    path, output = Path(args.solution), Path(args.output) if args.output else None
    if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
        raise FileNotFoundError(f"--output {output}: name a file in a folder that exists")
    text = path.read_text(encoding="utf-8")
    source = (notebook_program(text) if path.suffix == ".ipynb" else text).strip("\n")  # as extracted
    with TemporaryDirectory() as kept, make_executor(one_program(args)) as executor:
        executor.check(competition)
        reward = MLEReward([competition], executor, best_solutions_dir=kept)
        [evaluation] = reward.wait_for(reward.submit_programs([(source if source.strip() else None, competition)]))
        if evaluation.infrastructure_failed:
            raise SandboxError(f"our infrastructure failed: {evaluation.detail}")
        if output is not None and evaluation.valid:
            submission = Path(kept, competition.slug, "submission.csv").read_bytes()
            if (final := final_competition(competition)) is not None:
                from trl_mle.evaluation.choosing import like_sample, run_again  # here, because it takes a second

                [(score, predicted)] = run_again(executor, source, [final])
                if predicted is None or not score.valid:
                    raise ValueError(f"with all labels, it makes no valid submission: {score.error}")
                submission = like_sample(predicted, final)
            write_whole(output, submission)
    names = ("reward", "detail", "duration_s", "cpu_s", "milestones", "output")
    facts = {"outcome": str(evaluation.outcome)} | {name: getattr(evaluation, name) for name in names}
    table = facts_table()
    table.add_row("competition", competition.id)
    ended = str(evaluation.outcome) if evaluation.outcome != Outcome.OK else "no valid submission"
    table.add_row("outcome", "valid submission" if evaluation.valid else ended)
    if evaluation.detail:
        table.add_row("", evaluation.detail)
    if evaluation.valid:
        _add_score(table, competition, evaluation.score)
    if evaluation.duration_s is not None:
        table.add_row("Δt", f"{evaluation.duration_s:.2f} s ({evaluation.cpu_s or 0:.2f} s of CPU time)")
    missed = [name for name in MILESTONES if name not in evaluation.milestones]
    table.add_row("milestones", f"{len(evaluation.milestones)} of {len(MILESTONES)}")
    if missed:
        table.add_row("", f"not reached: {', '.join(missed)}")
    return _report(competition, evaluation.score, facts, table, args.json)


def _report(competition: Competition, score: Score | None, facts: dict[str, Any], table: Table, as_json: bool) -> int:
    """Prints a result for people or machines; returns the exit code."""
    score = score or Score(None, valid=False)
    if as_json:
        about = {name: getattr(competition, name) for name in ("metric", "higher_is_better")}
        graded = {"score": score.value, "held_out": score.held_out, "full": score.full}
        print_json({"competition": competition.id} | about | {"valid": score.valid} | graded | facts)
    else:
        console = PlainConsole()
        console.print(table)
        lines = (facts.get("output") or "").splitlines()
        if output := "\n".join(line for line in lines if not line.startswith("milestone: ")):  # inserted by us
            console.rule("output")
            console.print(output)
    return 0 if score.valid else 1


def _add_score(table: Table, competition: Competition, score: Score | None) -> None:
    """Adds a score beside that of the sample submission, which guesses a constant."""
    if score is None or not score.valid:
        table.add_row("invalid", (score and score.error) or "")
        return
    guess = competition.grade(competition.sample_submission)
    metric = metric_name(competition.metric, competition.higher_is_better)
    for name, field in ("score", "value"), ("held out", "held_out"), ("all rows", "full"):
        if field == "value" or score.held_out is not None:
            beside = f"; a constant guess: {number(getattr(guess, field), 5)}" if guess.valid else ""
            table.add_row(name, f"{number(getattr(score, field), 5)} ({metric}){beside}")


def show_prompt(args: argparse.Namespace) -> int:
    competition = load_competition(args.competition, args.data_dir)
    with make_executor(one_program(args), preload=False) as executor:
        messages = scratch_prompt(competition, executor.limits, begin_program=not args.plan)
    tokens = sum(estimate_tokens(message["content"]) for message in messages)
    if args.json:
        print_json({"competition": competition.id, "prompt": messages, "estimated_tokens": tokens})
        return 0
    print("\n\nThe answer begins with:\n\n".join(for_terminal(message["content"]) for message in messages))
    print(f"at most {tokens} tokens of Qwen2.5, without its chat template", file=sys.stderr)
    return 0
