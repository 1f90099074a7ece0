"""
Measures the cost of instrumentation, and how good it is.

    python benchmarks/instrumentation.py

1. Tokens that a language model generates for each program: in quote mode (a copy of a line for each milestone) and in rewrite mode
   (the whole program with prints), for ideal answers. The tokenizer is a byte-level BPE of at most 8,192 tokens with
   Qwen2's own splitting of text (each digit is a token), trained on the programs and both kinds of answers: no
   download. It fits these texts better than Qwen2.5's does. Bytes are counted, too, because they need no tokenizer.
2. Programs per second on one core (CPU time): for prints inserted and proven (`insert_prints` and `verify`, with the
   syntax tree from choosing the places), and for `AstInstrumenter` as a whole.
3. Agreement of `AstInstrumenter` with the hand-set labels of 78 solutions (`milestones/README.md`).

With `--equality` it also executes all programs of `programs.jsonl`, with prints and without, and compares submissions and
exit codes, byte for byte.
"""

import argparse
import json
import re
import time
from collections import Counter
from pathlib import Path
from statistics import median

from datasets import Dataset
from hand_labels import FALSE, MISSED, RIGHT, SILENT, judge, load_labels
from rich.console import Console
from rich.table import Table

from trl_mle.competitions import load_competition
from trl_mle.execution import LocalExecutor
from trl_mle.execution.program import parse_program, split_lines
from trl_mle.instrumentation import MILESTONES, AstInstrumenter, insert_prints, verify
from trl_mle.instrumentation.steps import find_steps
from trl_mle.starter.build import train_tokenizer


NONCE = "5e1f0c9a7b3d2468"
ROUNDS = 5

Places = list[tuple[int, str]]


def first_places(places: Places) -> Places:
    """The first place of each milestone, in the order of the milestones."""
    first = {milestone: line for line, milestone in sorted(places, reverse=True)}
    return [(first[milestone], milestone) for milestone in MILESTONES if milestone in first]


def quote_answer(source: str, places: Places) -> str:
    lines = split_lines(source)
    return "\n".join(f"{milestone}: {lines[line - 1].strip()}" for line, milestone in first_places(places))


def rewrite_answer(source: str, places: Places) -> str:
    marked = insert_prints(source, first_places(places), NONCE).source
    program = re.sub(rf'print\("{NONCE} (milestone: \w+)", flush=True\)', r'print("\1")', marked)
    return f"```python\n{program.rstrip()}\n```"


def tokens(solutions: dict[str, list[tuple[str, Places]]]) -> dict:
    """Tokens and bytes of ideal answers, by set of programs."""
    answers = {
        name: [(quote_answer(source, places), rewrite_answer(source, places)) for source, places in programs]
        for name, programs in solutions.items()
    }
    texts = [{"content": text} for pairs in answers.values() for pair in pairs for text in pair]
    corpus = Dataset.from_dict({"prompt": [[text] for text in texts], "completion": [[text] for text in texts]})
    tokenizer = train_tokenizer(corpus, vocab_size=8192)
    figures: dict = {"vocabulary": len(tokenizer)}
    for name, pairs in answers.items():
        figures[name] = {"programs": len(pairs)}
        for unit, size in (
            ("tokens", lambda text: len(tokenizer.encode(text))),
            ("bytes", lambda text: len(text.encode())),
        ):
            quote, rewrite = (sum(size(pair[mode]) for pair in pairs) / len(pairs) for mode in (0, 1))
            figures[name][unit] = {"quote": quote, "rewrite": rewrite, "quote_over_rewrite": quote / rewrite}
    return figures


def throughput(programs: list[str]) -> dict:
    """Programs per CPU second: for prints inserted and proven in a program that is parsed, with the places chosen, and
    for everything that [`AstInstrumenter`] does."""
    instrumenter = AstInstrumenter()
    bare, whole = [], []
    for _ in range(ROUNDS):
        seconds = 0.0
        for source in programs:
            steps = find_steps(parse_program(source))
            started = time.process_time()
            verify(source, insert_prints(source, steps, NONCE).source, NONCE)
            seconds += time.process_time() - started
        bare.append(len(programs) / seconds)
        started = time.process_time()
        for source in programs:
            instrumenter.instrument(source, NONCE)
        whole.append(len(programs) / (time.process_time() - started))
    return {"programs": len(programs), "insert_and_verify": median(bare), "ast_instrumenter": median(whole)}


def agreement() -> dict:
    """Verdicts on the milestones of the labelled programs."""
    instrumenter = AstInstrumenter()
    counts: dict[str, Counter[str]] = {milestone: Counter() for milestone in MILESTONES}
    labelled, objections = 0, []
    for name, (source, labels) in load_labels().items():
        for milestone, verdict in judge(instrumenter.instrument(source), labels).items():
            counts[milestone][verdict] += 1
            labelled += bool(labels[milestone])
            if verdict not in (RIGHT, SILENT):
                objections.append([verdict, name, milestone])
    total: Counter[str] = sum(counts.values(), Counter())
    return {
        "programs": len(load_labels()),
        "labelled": labelled,  # milestones that programs reach
        "right_of_labelled": total[RIGHT] / labelled,
        "right_or_rightly_silent": (total[RIGHT] + total[SILENT]) / total.total(),
        "total": dict(total),
        "by_milestone": {milestone: dict(count) for milestone, count in counts.items()},
        "objections": sorted(objections),
    }


def equality(programs: list[dict]) -> dict:
    """Runs each program as it is and with its prints."""
    instrumenter = AstInstrumenter()
    items = [(row["source"], load_competition(row["competition"])) for row in programs]
    with LocalExecutor(max_parallel=2) as executor:
        plain = executor.run_many(items)
        marked = executor.run_many([(instrumenter.instrument(source), competition) for source, competition in items])
    differing = [
        index
        for index, (one, other) in enumerate(zip(plain, marked, strict=True))
        if (one.outcome, one.exit_code, one.submission) != (other.outcome, other.exit_code, other.submission)
    ]
    outcomes = Counter(str(result.outcome) for result in plain)
    return {"programs": len(items), "outcomes": dict(outcomes), "differing": differing}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--equality", action="store_true", help="also execute the programs with and without prints")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-instrumentation.json"))
    args = parser.parse_args()
    console = Console()
    text = Path(__file__).with_name("programs.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    sources = [row["source"] for row in rows]
    labelled = [
        (source, [(lines[0], milestone) for milestone, lines in labels.items() if lines])
        for source, labels in load_labels().values()
    ]
    figures = {
        "tokens": tokens(
            {
                "hand-labelled": labelled,
                "programs.jsonl": [(source, find_steps(parse_program(source))) for source in sources],
            }
        ),
        "throughput": throughput(sources),
        "agreement": agreement(),
    }
    if args.equality:
        figures["equality"] = equality(rows)

    table = Table("", "quote", "rewrite", "quote / rewrite", title="A language model's answer, per program")
    for name in ("hand-labelled", "programs.jsonl"):
        for unit, size in figures["tokens"][name].items():
            if unit != "programs":
                figures_of = (f"{size['quote']:.0f}", f"{size['rewrite']:.0f}", f"{size['quote_over_rewrite']:.3f}")
                table.add_row(f"{name}, {unit}", *figures_of)
    console.print(table)
    speed = figures["throughput"]
    console.print(
        f"inserted and proven: {speed['insert_and_verify']:.0f} programs/s on one core; "
        f"AstInstrumenter as a whole {speed['ast_instrumenter']:.0f}"
    )
    agreed = figures["agreement"]
    verdicts = (RIGHT, "late", MISSED, FALSE, SILENT)
    table = Table("AstInstrumenter", *verdicts, title=f"Against the labels of {agreed['programs']} programs")
    for milestone, counts in [*agreed["by_milestone"].items(), ("all", agreed["total"])]:
        table.add_row(milestone, *(str(counts.get(verdict, 0)) for verdict in verdicts))
    console.print(table)
    console.print(f"{agreed['right_of_labelled']:.1%} of {agreed['labelled']} reached milestones are marked right")
    if args.equality:
        same = figures["equality"]
        console.print(
            f"{same['programs'] - len(same['differing'])} of {same['programs']} programs end with the same exit code and "
            f"the same submission with prints and without; outcomes {same['outcomes']}"
        )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(figures, indent=2) + "\n")
    console.print(f"figures: {args.output}")


if __name__ == "__main__":
    main()
