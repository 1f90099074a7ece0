"""`trl-mle solve`: finds the best submission in a given time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import indent
from time import monotonic

from trl_mle.competitions import Competition, CompetitionError, load_competition
from trl_mle.competitions.content import content_digest
from trl_mle.competitions.own import final_competition
from trl_mle.evaluation.harness import Harness, NoAnswerError, check_seed
from trl_mle.evaluation.policies import begins_program, check_policy, ideas_of, load_policy
from trl_mle.evaluation.sampling import score_of
from trl_mle.evaluation.submission_search import (
    clock,
    failures,
    like_sample,
    ranked,
    run_again,
    search,
)
from trl_mle.execution import Executor
from trl_mle.execution.options import OF_A_PROGRAM, ExecutorArguments, make_executor
from trl_mle.files import alone_in, write_whole
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.prompts import Ideas, keep_packages
from trl_mle.rewards import Evaluation, MLEReward, ProgramLog
from trl_mle.scripts.printing import facts_table
from trl_mle.showing import PlainConsole, metric_name


LOG, SUBMISSION, PROGRAM = "programs.jsonl", "submission.csv", "solution.py"
LINES = 6  # of a failed program's output


@dataclass
class SolveArguments(ExecutorArguments):
    """
    Samples, executes, repairs and improves programs until the time is up, and writes the submission of the best one. Half of
    the hidden rows choose it, and its score on the others is reported. In a folder made by `trl-mle new --test`, all hidden
    rows choose the program, which runs again with all labels and predicts the unlabelled rows. The best submission so far is
    always on disk. Running the command again resumes the search.
    """

    competition: str = field(metadata={"help": "Id or folder of the competition."})
    policy: str = field(
        metadata={
            "help": "Policy that writes the programs: the folder or Hub id of a model or LoRA adapter, or the URL of an "
            "OpenAI-compatible endpoint, optionally followed by `#` and the model's name."
        }
    )
    budget: str = field(
        default="10m",
        metadata={
            "help": "Time limit for everything, such as 90s, 10m or 2h; programs that still run then are ended."
        },
    )
    output_dir: str | None = field(
        default=None, metadata={"help": "Folder to write to; defaults to solved/<competition>."}
    )
    data_dir: str | None = field(default=None, metadata={"help": "Folder with MLE-bench's prepared competitions."})
    seed: int = field(default=0, metadata={"help": "Seed of the sampling."})
    batch_size: int = field(default=16, metadata={"help": "Programs sampled at a time."})
    max_prompt_length: int = field(default=2048, metadata={"help": "Length limit of an improve prompt, in tokens."})
    max_completion_length: int = field(default=1024, metadata={"help": "Length limit of a completion, in tokens."})
    begin_program: bool | None = field(
        default=None,
        metadata={
            "help": "Whether the first lines of a program begin each answer; defaults to the value of a policy's training, or true. "
            "False for endpoints that do not go on with an answer."
        },
    )

    ideas: str | None = field(
        default=None,
        metadata={
            "help": "Ideas that prompts ask for in turn: none, default, or a YAML file that lists them; defaults to the value of a "
            "policy's training, or none."
        },
    )

    def __post_init__(self) -> None:
        self.budget_s = seconds_of(self.budget)
        for name in ("batch_size", "max_prompt_length", "max_completion_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} must be at least 1, got {getattr(self, name)}")
        check_seed(self.seed)


def seconds_of(text: str) -> float:
    """Converts a time such as `"90s"`, `"10m"` or `"2h"` to seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"--budget must be a time such as 90s, 10m or 2h, got {text!r}")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def solve(args: SolveArguments) -> Path:
    """
    Searches for the best submission, writes it, and prints a summary.

    Raises:
        `ValueError`: No program was valid.
        [`~trl_mle.evaluation.harness.NoAnswerError`]: An endpoint has answered nothing of a batch.
    """
    began = monotonic()
    competition = load_competition(args.competition, args.data_dir)
    final = final_competition(competition)
    if final is None:
        competition = with_rows_for_the_report(competition)
    check_policy(args.policy)  # refuses a wrong name before anything is written
    folder = Path(args.output_dir or Path("solved") / competition.slug)
    with make_executor(args) as executor, alone_in(folder):
        executor.check(competition)
        harness = _harness(args, competition, executor, folder)
        budget_s = args.budget_s - (monotonic() - began)
        console = PlainConsole(stderr=True)
        chosen: Evaluation | None = None
        known: dict[str | None, bytes | str] = {}

        def write_best(evaluations: Sequence[Evaluation]) -> None:
            nonlocal chosen
            programs = ranked(evaluations, competition)
            again = run_again(
                programs, final or competition, executor, console, known, lambda: harness.log.now() >= budget_s
            )
            if again is not None and again[0] is not chosen:
                chosen = again[0]
                _write(folder, *again, final or competition)

        try:
            evaluations = search(harness, budget_s, console, write_best)
        except (KeyboardInterrupt, NoAnswerError):
            if (folder / SUBMISSION).is_file():  # maybe an earlier run's
                console.print(
                    f"interrupted: {folder / SUBMISSION} is the best so far; the same command goes on", soft_wrap=True
                )
            raise
        if chosen is None:
            _explain(evaluations, console)
            raise ValueError(
                f"{_why_nothing(evaluations, len(known))} (all programs: {harness.log.path}): give it more time (--budget), or use "
                "another policy"
            )
    _report(evaluations, chosen, competition, final is not None, harness.log.now(), folder)
    return folder / SUBMISSION


def _harness(args: SolveArguments, competition: Competition, executor: Executor, folder: Path) -> Harness:
    """The policy in the competition, with the log of an earlier run, if the folder has one."""
    begun = (folder / LOG).is_file()
    if not begun and (others := [path.name for path in (folder / SUBMISSION, folder / PROGRAM) if path.exists()]):
        raise ValueError(
            f"--output_dir: {folder} holds {others[0]}, which is not from an earlier run: use another folder"
        )
    limits = keep_packages(executor.limits, folder, begun_in=folder if begun else None)
    policy, begin = load_policy(args.policy), begins_program(args.policy, args.begin_program)
    ideas = Ideas(ideas_of(args.policy, args.ideas), args.seed)
    names = ("seed", "batch_size", "max_prompt_length", "max_completion_length", *OF_A_PROGRAM)
    settings = {"policy": policy.identity, "begin_program": begin, "ideas": ideas.identity}
    settings |= {name: getattr(args, name) for name in names}
    log = ProgramLog(folder / LOG, settings, {competition.id: content_digest(competition)})
    reward = MLEReward(
        [competition], executor, AstInstrumenter(), show_progress=False, reuse_results=args.reuse_results
    )
    return Harness(
        policy, competition, reward, log, args.max_completion_length, args.max_prompt_length, limits, args.seed,
        args.batch_size, begin, ideas,
    )  # fmt: skip


def _explain(evaluations: Sequence[Evaluation], console: PlainConsole) -> None:
    """Prints the most frequent reasons why programs failed."""
    for count, kind, evaluation in failures(evaluations):
        lines = evaluation.output.strip().splitlines()[-LINES:] or [evaluation.detail]
        console.print(f"{count} of {len(evaluations)} programs: {kind}; for example:", soft_wrap=True)
        console.print(indent("\n".join(lines), "    "), soft_wrap=True)


def _why_nothing(evaluations: Sequence[Evaluation], num_again: int) -> str:
    valid = sum(evaluation.valid for evaluation in evaluations)
    if not valid:
        return "no program made a valid submission"
    return f"of {valid} valid programs, {num_again} ran again in the time left, and none was valid then"


def with_rows_for_the_report(competition: Competition) -> Competition:
    """The competition with half of its hidden rows held out, or as it is if its grader cannot score a part of them."""
    try:
        half = replace(competition, holdout=0.5)
        half.check_answers()
    except CompetitionError:
        return competition
    return half


def _write(folder: Path, program: Evaluation, submission: bytes, competition: Competition) -> None:
    """Writes the submission and its program."""
    write_whole(folder / SUBMISSION, like_sample(submission, competition))
    write_whole(folder / PROGRAM, (program.source or "").encode("utf-8", errors="backslashreplace"))


def _report(
    evaluations: Sequence[Evaluation],
    chosen: Evaluation,
    competition: Competition,
    is_final: bool,
    seconds: float,
    folder: Path,
) -> None:
    place = 1 + [evaluation.source for evaluation in ranked(evaluations, competition)].index(chosen.source)
    facts = facts_table()
    facts.add_row("competition", competition.id)
    facts.add_row("metric", metric_name(competition.metric, competition.higher_is_better))
    valid = sum(evaluation.valid for evaluation in evaluations)
    facts.add_row("programs", f"{len(evaluations)} in {clock(seconds)}, {valid} of them valid")
    what = "the best of them" if place == 1 else f"number {place} of them, the best that ran again"
    rows = "half of the hidden rows" if competition.holdout else "the hidden rows"
    facts.add_row("chosen", f"{what}, by their scores on {rows}")
    facts.add_row("", f"{score_of(chosen):.5g}")
    if is_final:
        facts.add_row("then", "run again with all labels, to predict the unlabelled rows")
    elif competition.holdout:
        score = competition.grade(folder / SUBMISSION)
        facts.add_row("held out", f"{score.held_out:.5g}, on the other half")
    else:
        facts.add_row("", "the rows that it was chosen on: they cannot be split, and the score is too good")
    facts.add_row("submission", str(folder / SUBMISSION))
    facts.add_row("program", str(folder / PROGRAM))
    PlainConsole().print(facts)
