"""
Measures instrumenters on programs of a pretrained model: do they report the milestones that the programs reach?

    python benchmarks/instrumenters.py                                                        # the rules
    python benchmarks/instrumenters.py --endpoint http://localhost:8000/v1 --mode rewrite     # a language model

`milestones/answers.jsonl` holds 200 programs that Qwen2.5-Coder-0.5B-Instruct wrote for 18 competitions (the first that parse, of
its answers to the prompts of `prompts.py`, at most 448 tokens at temperature 1), with the statements that completed when they ran.
108 of them have labels set by hand, from the program and its traceback, before anybody saw what an instrumenter reports: for
each milestone whether the program reached it (`milestones/README.md`). Nothing is executed here.

Written down before the first answers of a language model were judged:

- Question: can a small language model instrument such programs, as in https://huggingface.co/papers/2509.01684, and in which form
  of the answer?
- Primary outcomes, of each model and mode: the share of the 200 programs that it instruments (its answer is proven and marks a
  milestone; the others fall back to the rules), and the share of the 756 labels that agree with what its prints report, without
  the fallback and with it.
- Beside them: why answers are rejected, missed and false milestones, tokens and seconds for each program.
- A mode is fit for use if it instruments at least 80% of the programs and agrees with the labels at least as often as the rules do.

The mode `quote` was added after a mode of line numbers had been measured, which is gone. Its prompt, one of seven, was chosen by what Coder-0.5B answers about 27 of
the labelled programs of the half `choose`.

The rules were mended after half of the competitions (`choose`); the others (`report`) show whether that holds elsewhere.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hand_labels import Answer, load_answers, reported
from paired import interval
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

from trl_mle.instrumentation import MILESTONES, AstInstrumenter, EndpointModel, InstrumentedProgram, LmInstrumenter


DEADLINE_S = 7200.0  # for all answers of a model


class NoFallback(AstInstrumenter):
    """Places no prints, to see what a language model does alone."""

    def instrument(self, source: str, nonce: str | None = None) -> InstrumentedProgram:
        """See [`AstInstrumenter`]."""
        return InstrumentedProgram(source=source, original=source, milestones=(), nonce=nonce or "")


def verdicts(answer: Answer, program: InstrumentedProgram) -> dict[str, str]:
    """For each milestone whether its report is `"right"`, `"missed"`, `"false"`, or `"late"`: done in the statement that failed."""
    found, labels = reported(program, answer.completed), answer.labels or {}
    kinds = {("1", False): "missed", ("0", True): "false", ("x", False): "lost"}
    return {milestone: kinds.get((label, milestone in found), "right") for milestone, label in labels.items()}


def figures(answers: Sequence[Answer], programs: Sequence[InstrumentedProgram]) -> dict[str, Any]:
    """Agreement with the labels: by milestone, by half, and the mean share of a program's labels with its 95% interval."""
    labelled = [
        (answer, verdicts(answer, program))
        for answer, program in zip(answers, programs, strict=True)
        if answer.labels is not None
    ]
    right = {
        half: [
            sum(value == "right" for value in found.values()) / len(found)
            for answer, found in labelled
            if answer.half in kept
        ]
        for half, kept in {"choose": ("choose",), "report": ("report",), "all": ("choose", "report")}.items()
    }
    return {
        "right": {half: interval(shares) for half, shares in right.items()},
        "wholly right": {half: sum(share == 1 for share in shares) / len(shares) for half, shares in right.items()},
        "by_milestone": {name: dict(Counter(found[name] for _, found in labelled)) for name in MILESTONES},
        "instrumented": [bool(program.milestones) for program in programs],
    }


def ask(answers: Sequence[Answer], model: EndpointModel, mode: str) -> dict[str, dict[str, Any]]:
    """Figures of a language model, without the fallback to the rules and with it."""
    instrumenter = LmInstrumenter(model, mode)
    rules, instrumenter.fallback = instrumenter.fallback, NoFallback()
    sources = [answer.source for answer in answers]
    started = time.monotonic()
    alone = instrumenter.instrument_many(sources)
    seconds = (time.monotonic() - started) / len(sources)
    cost = {"seconds": seconds} | instrumenter.metrics()
    mended = [program if program.milestones else rules.instrument(program.original) for program in alone]
    return {
        f"{model.model}, {mode}": figures(answers, alone) | cost,
        f"{model.model}, {mode}, or the rules": figures(answers, mended),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().split("\n")[0])
    parser.add_argument(
        "--endpoint", help="base URL of a language model's server, such as vLLM's (none: the rules alone)"
    )
    parser.add_argument("--mode", nargs="+", default=["quote", "rewrite"], choices=["quote", "rewrite"])
    parser.add_argument("--labelled", action="store_true", help="only the programs with labels, 108 of 200")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-instrumenters.json"))
    args = parser.parse_args()
    answers, rules = [answer for answer in load_answers() if answer.labels or not args.labelled], AstInstrumenter()
    found = {"rules": figures(answers, [rules.instrument(answer.source) for answer in answers])}
    if args.endpoint is not None:
        model = EndpointModel(args.endpoint, deadline_s=DEADLINE_S)
        for mode in args.mode:
            found |= ask(answers, model, mode)

    console = Console()
    table = Table(
        "", "instrumented", "labels right", "choose", "report", "wholly right", title=f"{len(answers)} programs"
    )
    for name, one in found.items():
        count = binomtest(sum(one["instrumented"]), len(answers))
        low, high = count.proportion_ci(method="wilson")
        means = [
            f"{mean:.3f} ± {half:.3f}" for mean, half in (one["right"][key] for key in ("all", "choose", "report"))
        ]
        table.add_row(
            name, f"{count.statistic:.2f} ({low:.2f}-{high:.2f})", *means, f"{one['wholly right']['all']:.2f}"
        )
    console.print(table)
    table = Table("missed / false / lost", *MILESTONES, title="By milestone")
    for name, one in found.items():
        counts = [one["by_milestone"][milestone] for milestone in MILESTONES]
        table.add_row(
            name, *(" / ".join(str(count.get(kind, 0)) for kind in ("missed", "false", "lost")) for count in counts)
        )
    console.print(table)
    for name, one in found.items():
        if "seconds" in one:
            rejected = {
                key.partition("/")[2]: round(share, 3)
                for key, share in one.items()
                if key.startswith("rejected") and share
            }
            console.print(
                f"{name}: {one['seconds']:.1f} s and {one['tokens_per_program']:.0f} tokens a program; rejected {rejected}"
            )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
