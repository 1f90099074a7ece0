"""`trl-mle solve`: finds the best submission in a given time."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from time import monotonic

from rich.table import Table

from trl_mle.competitions import Competition, CompetitionError, load_competition
from trl_mle.competitions.competition import path_slug
from trl_mle.competitions.own import final_competition
from trl_mle.evaluation.choosing import Chooser, like_sample
from trl_mle.evaluation.harness import Harness, NoAnswerError, SamplingArguments, check_counts
from trl_mle.evaluation.policies import check_policy, completion_length
from trl_mle.evaluation.results import failures, score_of
from trl_mle.evaluation.submission_search import clock, ranked, search
from trl_mle.execution import Executor
from trl_mle.execution.options import make_executor, option
from trl_mle.files import alone_in, write_whole
from trl_mle.rewards import Evaluation
from trl_mle.scripts.printing import facts_table
from trl_mle.showing import PlainConsole, metric_name, number, terminal_line


LOG, SUBMISSION, PROGRAM, FOLDS = "programs.jsonl", "submission.csv", "solution.py", "folds.json"
SHOWN = 5  # programs of the table at the end


@dataclass(kw_only=True)
class SolveArguments(SamplingArguments):
    """Samples and executes programs until the time is up: also variations of the best ideas or, without ideas, repairs
    and improvements. Writes the submission of the best program. Half of the hidden rows choose it, and half are
    held out. In a folder made by `trl-mle new --test`, the mean score on folds of the labelled rows chooses, and the
    program runs again with all labels and predicts the rest. The best submission so far is always on disk. Running
    the command again resumes the search."""

    competition: str = option(MISSING, "Id or folder of the competition.")
    policy: str = option(
        MISSING,
        "Policy that writes the programs: the folder or Hub id of a model or LoRA adapter, or the URL of an "
        "OpenAI-compatible endpoint, optionally followed by `#` and the model's name.",
    )
    budget: str = option("10m", "Time limit, such as 90s, 10m or 2h; programs that still run then are ended.")
    output_dir: str | None = option(None, "Folder to write to; defaults to solved/<competition>/<policy>.")
    start: list[str] | None = option(
        None,
        "Programs to start from: files, or folders of runs, whose best ones are taken; defaults to the policy's own "
        "run.",
    )
    max_prompt_length: int = option(2048, "Length limit of an improve prompt, in tokens.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(max_prompt_length=self.max_prompt_length)
        self.budget_s = seconds_of(self.budget)


def seconds_of(text: str) -> float:
    """Converts a time such as `"90s"`, `"10m"` or `"2h"` to seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"--budget must be a time such as 90s, 10m or 2h, got {text!r}")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def solve(args: SolveArguments) -> Path:
    """Searches for the best submission, writes it, and prints a summary. Raises `ValueError` without a valid
    program."""
    began = monotonic()
    competition = load_competition(args.competition, args.data_dir)
    final = final_competition(competition)
    if final is None:
        competition = with_rows_for_the_report(competition)
    check_policy(args.policy)  # refuses a wrong name before anything is written
    folder = Path(args.output_dir or Path("solved") / competition.slug / path_slug(args.policy))
    start = _programs(args, competition)
    console = PlainConsole(stderr=True)
    with make_executor(args) as executor, alone_in(folder):
        executor.check(competition)
        harness = _harness(args, competition, executor, folder)
        chosen: Evaluation | None = None
        chooser = None if final is None else Chooser(competition, final, executor, console, folder / FOLDS)
        budget_s = args.budget_s - (monotonic() - began)

        def write_best(evaluations: Sequence[Evaluation]) -> None:
            nonlocal chosen
            programs = ranked(evaluations, competition)
            if not programs:
                return
            if chooser is None:  # its files were kept when it ran
                chosen, best = programs[0], folder / "best_solutions" / competition.slug
                program, submission = (best / PROGRAM).read_bytes(), (best / SUBMISSION).read_bytes()
            elif again := chooser.choose(programs, has_time):
                chosen, submission = again
                program = (chosen.source or "").encode("utf-8", errors="backslashreplace")
            else:
                return
            write_whole(folder / SUBMISSION, like_sample(submission, final or competition))
            write_whole(folder / PROGRAM, program)

        def has_time() -> bool:
            """For folds: not before there is a submission, and a third of the time."""
            assert chooser is not None
            now_s = harness.log.now()
            return (folder / SUBMISSION).is_file() and now_s < budget_s and chooser.spent_s < now_s / 3

        if harness.log.samples and harness.log.now() >= budget_s:
            console.print("the budget is spent: raise --budget to search on", soft_wrap=True)
        try:
            evaluations = search(harness, budget_s, console, write_best, start)
        except (KeyboardInterrupt, NoAnswerError):
            if (folder / SUBMISSION).is_file():  # maybe an earlier run's
                console.print(f"interrupted: {folder / SUBMISSION} is the best so far", soft_wrap=True)
            raise
    if chosen is None:
        console.print("\n".join(failures(evaluations)), soft_wrap=True)
        ran_again = any(evaluation.valid for evaluation in evaluations)
        reason = "no valid program was valid when run again" if ran_again else "no program made a valid submission"
        failed = all(evaluation.infrastructure_failed for evaluation in evaluations)
        ours = bool(evaluations) and (not chooser.submissions if chooser and ran_again else failed)
        advice = "run it again" if ours else "raise --budget, or use another policy"
        raise ValueError(f"{reason} ({harness.log.path}): {advice}")
    _report(evaluations, chosen, harness, chooser, folder)
    return folder / SUBMISSION


def _programs(args: SolveArguments, competition: Competition) -> list[str]:
    """The programs to start from, without duplicates. Raises `ValueError` for a path without any, `OSError` if one
    cannot be read."""
    sources: list[str] = []
    for path in map(Path, args.start if args.start is not None else [args.policy]):
        best = sorted(path.glob(f"best_solutions/**/{competition.slug}/{PROGRAM}"))
        if args.start is not None and path.is_dir() and not best:
            raise ValueError(f"--start: {path} has no best solution of {competition.id}")
        files = [path] if args.start is not None and not best else best
        sources += [file.read_text(encoding="utf-8", errors="replace") for file in files]
    return list(dict.fromkeys(sources))


def _harness(args: SolveArguments, competition: Competition, executor: Executor, folder: Path) -> Harness:
    if not (folder / LOG).is_file():
        for path in (folder / SUBMISSION, folder / PROGRAM):
            if path.exists():
                raise ValueError(f"--output_dir: {path} is not from an earlier run: use another folder")
    length, best = args.max_completion_length or completion_length([args.policy]), folder / "best_solutions"
    [harness] = args.harnesses(
        args.policy, length, [competition], executor, folder / LOG, best, {"start": args.start}, args.max_prompt_length
    )
    return harness


def with_rows_for_the_report(competition: Competition) -> Competition:
    """The competition with half of its hidden rows held out, or as it is if its grader cannot score a part of them."""
    with suppress(CompetitionError):
        half = replace(competition, holdout=0.5)
        half.check_answers()
        return half
    return competition


def _report(
    evaluations: Sequence[Evaluation], chosen: Evaluation, harness: Harness, chooser: Chooser | None, folder: Path
) -> None:
    competition = harness.competition
    programs, folds = ranked(evaluations, competition), chooser.scores if chooser else {}
    programs = chooser.ordered(programs) if chooser else programs
    place = 1 + [evaluation.source for evaluation in programs].index(chosen.source)
    facts = facts_table()
    facts.add_row("competition", competition.id)
    facts.add_row("metric", metric_name(competition.metric, competition.higher_is_better))
    valid = sum(evaluation.valid for evaluation in evaluations)
    facts.add_row("programs", f"{len(evaluations)} in {clock(harness.log.now())}, {valid} of them valid")
    facts.add_row("chosen", "the best of them" if place == 1 else f"number {place} of them, the best that ran again")
    if on_folds := folds.get(chosen.source or ""):
        facts.add_row("score", f"{_with_spread(on_folds)}, of {len(on_folds)} folds of the labelled rows")
    else:
        facts.add_row("score", f"{number(score_of(chosen), 5)}, on the rows that chose it, so it is optimistic")
    if competition.holdout:
        facts.add_row("held out", number(competition.grade(folder / SUBMISSION).held_out, 5))
    parts = [competition, *(chooser.folds if chooser and on_folds else [])]
    guesses = [part.grade(part.sample_submission) for part in parts]
    values = [guess.held_out if competition.holdout else guess.value for guess in guesses]
    if (known := [value for value in values if value is not None]) and len(known) == len(parts):
        facts.add_row("", f"a constant guess: {number(fmean(known), 5)}")
    if chooser:
        facts.add_row("then", "run again with all labels, to predict the unlabelled rows")
    facts.add_row("submission", str(folder / SUBMISSION))
    facts.add_row("program", str(folder / PROGRAM))
    console = PlainConsole()
    console.print(facts)
    console.print(_candidates(harness, programs[:SHOWN], folds))


def _with_spread(scores: Sequence[float]) -> str:
    spread = stdev(scores)
    return f"{number(fmean(scores), 5)} ± {number(spread, 0 if spread > 100 else 3)}"


def _candidates(harness: Harness, programs: Sequence[Evaluation], folds: Mapping[str, Sequence[float]]) -> Table:
    """The best programs, with the mean and the standard deviation of their scores on folds, if any ran there."""
    samples = [*harness.log.samples.items()][::-1]  # so that the first of copies counts
    numbers = {sample.evaluation.source: index for (_, index), sample in samples if sample.evaluation}
    columns = ["program", "score", *["folds"] * bool(folds), "Δt (s)", "written", "idea"]
    table = Table(*columns, title="the best programs")
    table.columns[-1].overflow = "fold"
    for evaluation in programs:
        index = numbers[evaluation.source]
        sample = harness.log.samples[harness.competition.id, index]
        parent = "" if sample.parent is None else f" {sample.parent}"
        on_folds = folds.get(evaluation.source or "")
        spread = [_with_spread(on_folds) if on_folds else ""] * bool(folds)
        figures = number(score_of(evaluation), 5), *spread, f"{evaluation.duration_s or 0:.2f}"
        table.add_row(str(index), *figures, f"{sample.step}{parent}", terminal_line(sample.idea or ""))
    return table
