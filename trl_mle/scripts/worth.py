"""`trl-mle worth`: compares a training run with sampling the policy that it began with, as often and as long."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.table import Table
from scipy.special import betaln
from scipy.stats import beta

from trl_mle.competitions import Competition, TaskSet
from trl_mle.competitions.content import content_digest
from trl_mle.competitions.metrics import gain
from trl_mle.competitions.reading import listed
from trl_mle.evaluation.best_of_k import best_of_k
from trl_mle.evaluation.evaluate import best_solutions, file_name
from trl_mle.evaluation.harness import Harness, check_seed
from trl_mle.evaluation.policies import TransformersPolicy, check_policy, load_policy
from trl_mle.evaluation.sample_log import SampleLog
from trl_mle.evaluation.sampling import judged, reported_score, sample_programs, score_of
from trl_mle.execution.options import OF_A_PROGRAM, ExecutorArguments, make_executor
from trl_mle.files import alone_in, write_whole
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.prompts import Ideas, keep_packages
from trl_mle.report.training_run import TrainingRun, has_ended, percent, read_run
from trl_mle.rewards import MLEReward
from trl_mle.rewards.progress import ARGUMENTS_FILE, ARGUMENTS_KEPT, read_arguments
from trl_mle.showing import PlainConsole, metric_name, number, terminal_line


logger = logging.getLogger(__name__)

OF_AN_ANSWER = ("begin_program", "ideas", "max_prompt_length", "max_completion_length")


@dataclass
class WorthArguments:
    """
    Compares a finished training run, and samples of its policy, with the best of as many programs of the policy that training
    began with, and of as many as that one writes on this machine in the same time. Prompts, limits and held-out rows are those of
    the run, and competitions the first 32 of them. Everything is kept in worth/ in the run's folder; run it again to resume.
    """

    run: str = field(metadata={"help": "Output folder of the run."})
    policy: str | None = field(
        default=None,
        metadata={
            "help": "Another policy to compare with: a folder, a Hub id, or the URL of an OpenAI-compatible endpoint."
        },
    )
    num_samples: int = field(default=128, metadata={"help": "Programs from the trained policy per competition."})
    batch_size: int = field(default=64, metadata={"help": "Programs sampled at a time."})
    seed: int = field(default=1_000_000, metadata={"help": "Seed of the sampling; far from the seeds of training."})
    sandbox: str = field(default="auto", metadata={"help": "`auto`, a tier that doctor lists, or `none`."})

    def __post_init__(self) -> None:
        for name in ("num_samples", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} must be at least 1, got {getattr(self, name)}")
        check_seed(self.seed)


@dataclass(frozen=True)
class Found:
    """
    What programs have found in one competition.

    Args:
        what (`str`):
            Where the programs are from.
        programs (`int`):
            Number of programs; an answer without code counts, too.
        seconds (`float`):
            Time in seconds that they took: sampling, execution, and training, if any.
        valid_rate (`float`):
            Share of valid programs.
        score (`float`, *optional*):
            Score of the best, chosen on the rows that training sees and reported on the held-out rows, if any; for the untrained
            policy, the expected one, if any is valid. `None` without a valid program.
        low, high (`float`, *optional*):
            Ends of the 95% interval of an expected score.
        chosen_by (`float`, *optional*):
            For the run: score of the best on the rows that it is chosen on.
        as_good (`tuple[float, float, float]`, *optional*):
            For the untrained policy: the chance that one of the programs scores at least as well as the run's best on the rows that
            it is chosen on, and its 95% interval, see [`chance_of_one`]. On the held-out rows, the best of all would be chosen by the
            score that is reported, which the run's was not.
    """

    what: str
    programs: int
    seconds: float
    valid_rate: float
    score: float | None
    low: float | None = None
    high: float | None = None
    chosen_by: float | None = None
    as_good: tuple[float, float, float] | None = None


def worth(args: WorthArguments) -> None:
    """
    Samples both policies, prints a table for each competition of the run, and writes `worth/worth.json`.

    Raises:
        `OSError`: The folder holds no run, or one whose arguments are unknown.
        `ValueError`: The run has not ended, or has no programs.
    """
    folder = Path(args.run)
    run = read_run(folder, folder.name)
    try:
        arguments = read_arguments(folder / ARGUMENTS_FILE)
    except FileNotFoundError:
        raise FileNotFoundError(f"{folder} holds no {ARGUMENTS_FILE}: it was not made by trl-mle train") from None
    names = [name for name in run.competitions if len(run.programs(name))]
    if run.training_s is None or not names or not has_ended(folder):
        raise ValueError(f"{folder} holds no run that has ended, with programs: let it go on")
    if not arguments.keys() >= set(ARGUMENTS_KEPT):
        raise ValueError(f"{folder / ARGUMENTS_FILE} is not what this version of trl-mle train writes")
    untrained = args.policy or arguments["model_name_or_path"]
    for policy in (args.run, untrained):
        check_policy(policy)
    tasks = TaskSet(arguments["competitions"], arguments["data_dir"], arguments["holdout"])
    left_out = [name for name in names if name not in tasks]
    if len(left_out) == len(names):
        asked = ", ".join(arguments["competitions"])
        raise ValueError(f"{asked} cannot be found from here: call this from the folder where training began")
    if left_out:
        why = "the run ended without them, or they cannot be found from here"
        logger.warning("not compared, because %s: %s", why, listed(left_out))
    competitions = [tasks[name] for name in names if name in tasks]
    options = ExecutorArguments(**{name: arguments[name] for name in OF_A_PROGRAM}, sandbox=args.sandbox)
    output_dir = folder / "worth"
    console = PlainConsole()
    found: dict[str, list[Found]] = {}
    with make_executor(options) as executor, alone_in(output_dir):
        for competition in competitions:
            executor.check(competition)
        limits = keep_packages(executor.limits, output_dir, begun_in=folder)
        reward = MLEReward(competitions, executor, AstInstrumenter())
        contents = {competition.id: content_digest(competition) for competition in competitions}

        def harnesses(name: str, policy_name: str) -> list[Harness]:
            began_with = policy_name == arguments["model_name_or_path"]
            policy = load_policy(policy_name, arguments["model_revision"] if began_with else "main")
            if isinstance(policy, TransformersPolicy):  # the trained one has them in its chat template, too
                policy.chat_template_kwargs = arguments["chat_template_kwargs"] or {}
            settings = {"policy": policy.identity, "seed": args.seed, "batch_size": args.batch_size}
            settings |= {option: arguments[option] for option in (*OF_A_PROGRAM, *OF_AN_ANSWER)}
            log = SampleLog(output_dir / f"{name}.jsonl", settings, contents)
            return [
                Harness(
                    policy, competition, reward, log, arguments["max_completion_length"], arguments["max_prompt_length"], limits,
                    args.seed, args.batch_size, arguments["begin_program"], Ideas(arguments["ideas"], args.seed),
                )
                for competition in competitions
            ]  # fmt: skip

        # One policy after the other: they may not fit into memory together
        for harness in harnesses(f"trained-{run.history[-1]['step']}", args.run):
            found[harness.competition.id] = [trained_result(run, harness, args.num_samples)]
        del harness
        for harness in harnesses(f"untrained-{file_name(untrained)}", untrained):
            found[harness.competition.id] += untrained_results(harness, found[harness.competition.id][0])
    for competition in competitions:
        console.print(table(competition, found[competition.id], untrained))
        console.print(verdict(found[competition.id]))
    report = {"policy": untrained} | {name: [asdict(result) for result in results] for name, results in found.items()}
    write_whole(output_dir / "worth.json", (json.dumps(report, indent=2) + "\n").encode())
    console.print(f"figures {output_dir / 'worth.json'}", soft_wrap=True)


def trained_result(run: TrainingRun, harness: Harness, num_samples: int) -> Found:
    """What the run and samples of its policy have found; training's time counts by the competition's share of its programs."""
    competition = harness.competition
    programs = run.programs(competition.id)
    evaluations = judged(sample_programs(harness, num_samples))
    solutions = best_solutions(competition, {run.name: evaluations}, {run.name: str(run.folder)})
    best = max(solutions, key=lambda solution: gain(solution[0], competition.higher_is_better), default=None)
    share = len(programs) / len(run.programs())
    answers = answers_in_training(run, competition)
    seconds = (run.training_s or 0.0) * share + seconds_of(harness, num_samples)
    valid = programs["valid"].sum() + sum(evaluation.valid for evaluation in evaluations)
    count = answers + len(evaluations)
    chosen_by, score = (best[0], best[1]) if best else (None, None)
    return Found("training, then samples", count, seconds, float(valid / count), score, chosen_by=chosen_by)


def answers_in_training(run: TrainingRun, competition: Competition) -> int:
    """Number of answers that the programs of a competition came with: those without code are in the metrics alone."""
    name = "outcome/no_code_rate"
    without = run.metric(f"mle/{competition.slug}/{name}") or run.metric(f"mle/{name}")
    share = fmean(without.values()) if without else 0.0
    programs = len(run.programs(competition.id))
    return round(programs / (1 - share)) if share < 1 else programs


def untrained_results(harness: Harness, trained: Found) -> list[Found]:
    """The expected best of as many programs of the untrained policy, and of as many as it writes in as many seconds."""
    sample_programs(harness, trained.programs)
    seconds_each = seconds_of(harness, trained.programs) / trained.programs
    in_time = max(1, round(trained.seconds / seconds_each))
    evaluations = judged(sample_programs(harness, max(trained.programs, in_time)))
    if not evaluations:
        raise ValueError(
            f"no program for {harness.competition.id} could be executed because of a failure of our infrastructure: run the same "
            "command again to retry them"
        )
    counts = [min(count, len(evaluations)) for count in (trained.programs, in_time)]
    higher = harness.competition.higher_is_better
    points = best_of_k(
        [score_of(evaluation) for evaluation in evaluations],
        counts,
        higher,
        reported=[reported_score(evaluation) for evaluation in evaluations],
    )
    valid_rate = sum(evaluation.valid for evaluation in evaluations) / len(evaluations)
    as_good = sum(
        trained.chosen_by is None or gain(score, higher) >= gain(trained.chosen_by, higher)
        for evaluation in evaluations
        if (score := score_of(evaluation)) is not None
    )
    return [
        Found(
            what, point.k, point.k * seconds_each, valid_rate, point.score, point.low, point.high,
            as_good=chance_of_one(as_good, len(evaluations), point.k),
        )
        for what, point in zip(("untrained, equal programs", "untrained, equal seconds"), points, strict=True)
    ]  # fmt: skip


def seconds_of(harness: Harness, count: int) -> float:
    """Seconds that the first programs of a log took, batch by batch: from the request to the end of the last program, see
    [`SampleLog.ends`]."""
    ends, last = harness.log.ends(), dict[float, float]()
    for sample, written in harness.log.written.items():
        if sample.competition == harness.competition.id and sample.index < count:
            ended_s = ends.get(sample, written.started_s)
            last[written.started_s] = max(last.get(written.started_s, 0.0), ended_s)
    return sum(ended_s - started_s for started_s, ended_s in last.items())


def chance_of_one(hits: int, samples: int, count: int) -> tuple[float, float, float]:
    """
    The chance that one of `count` programs is a hit where `hits` of `samples` were, and its 95% interval: its mean and quantiles
    under Jeffreys' posterior for the share of hits, since none in n does not mean that there are none.
    """
    a, b = hits + 0.5, samples - hits + 0.5
    low, high = -np.expm1(count * np.log1p(-beta(a, b).ppf((0.025, 0.975))))
    return float(-np.expm1(betaln(a, b + count) - betaln(a, b))), float(low), float(high)


def table(competition: Competition, results: Sequence[Found], untrained: str) -> Table:
    """A row for each of the three."""
    shown = Table(
        title=f"{competition.id}, {metric_name(competition.metric, competition.higher_is_better)}",
        caption=terminal_line(f"untrained: {untrained}; one run, 95% intervals")
        + ("; scores on held-out rows, the best chosen on the others" if competition.holdout else ""),
        caption_justify="left",
    )
    for column in ("programs of", "number", "seconds", "valid", "best"):
        shown.add_column(column, justify="left" if column == "programs of" else "right")
    for result in results:
        interval = "" if result.low is None else f" ({number(result.low)}–{number(result.high)})"
        shown.add_row(
            result.what, f"{result.programs:,}", f"{result.seconds:,.0f}", percent(result.valid_rate),
            number(result.score) + interval,
        )  # fmt: skip
    return shown


def verdict(results: Sequence[Found]) -> str:
    """How likely as many untrained programs hold one as good as the run's best, in one line."""
    chances = [
        f"{percent(share)} ({percent(low)}–{percent(high)}) at {result.what.removeprefix('untrained, ')}"
        for result in results
        if result.as_good is not None
        for share, low, high in [result.as_good]
    ]
    return f"chance that one of the untrained policy's is as good as the run's best: {', '.join(chances)}"
