"""
Measures what a pretrained model does with improve and repair prompts, against a program from scratch.

    python benchmarks/improving.py --endpoint http://127.0.0.1:8000/v1

Written down before the first run:

- Question: is it worth more to show a small pretrained model a program of its own, with its output, than to ask it again from scratch?
- Qwen2.5-Coder-0.5B-Instruct at temperature 1, with at most 448 tokens and begun answers, as in training. 14 programs from scratch for
  each of the 18 competitions of `benchmarks/prompts.py`. Each valid one is improved once; each of the others that has code is repaired
  once.
- Primary outcomes, in pairs by competition, with 95% intervals: (a) the share of improvements that are better than their parent, less
  the share of programs from scratch that are (over all pairs of a parent and another program from scratch); (b) the share of valid
  repairs less that of valid programs from scratch.
- Also: the same at equal tokens (completions; as many programs from scratch as one improvement costs, by the mean share, which is a
  little too much for several), and copies (the parent's syntax tree).

Written down when the 0.5B's programs were all there, before the first of this model: the same questions for Qwen2.5-Coder-1.5B-Instruct
(`--model coder-1.5b`). If its interval of (a) lies below 0, too, the recipe for one GPU of 24 GB does without improve prompts. (It does:
-0.108 ± 0.083, so the recipe does without.)

Finished programs are lines in the output folder, and neither sampled nor executed again.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from paired import interval
from prompts import LOCAL, MODELS, load, make_tables
from rich.console import Console
from rich.table import Table

from trl_mle.competitions import Competition, list_competitions, load_competition
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.sample_log import Sample, SampleLog
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.solutions.pool import syntax_tree_id


MAX_TOKENS, MAX_PROMPT_TOKENS, SAMPLES = 448, 1024, 14


def measure(harness: Harness) -> list[dict[str, Any]]:
    """A line for each program: from scratch, and from a prompt that shows one of those."""
    competition, log = harness.competition, harness.log
    scratch = [Sample(competition.id, "scratch", i) for i in range(SAMPLES)]
    harness.write(scratch, [harness.scratch_prompt(0)] * SAMPLES, "scratch")
    parents = harness.execute(scratch)
    shown = [i for i, parent in enumerate(parents) if parent.source is not None]
    better = [Sample(competition.id, "improve", i) for i in shown]
    prompts = [harness.improve_prompt(parents[i], failed=not parents[i].valid) for i in shown]
    harness.write(better, prompts, "improve", shown, seeds_used=SAMPLES)
    found = dict(zip(shown, harness.execute(better), strict=True))

    def line(sample: Sample, evaluation: Evaluation, kind: str, parent: Evaluation | None) -> dict[str, Any]:
        return {
            "competition": competition.id,
            "kind": kind,
            "valid": evaluation.valid,
            "quality": evaluation.quality,
            "milestones": len(evaluation.milestones),
            "tokens": log.written[sample].tokens,
            "parent": parent and parent.quality,
            "copy": None if parent is None else same_program(evaluation, parent),
        }

    lines = [line(sample, parent, "scratch", None) for sample, parent in zip(scratch, parents, strict=True)]
    for sample, i in zip(better, shown, strict=True):
        lines.append(line(sample, found[i], "improve" if parents[i].valid else "repair", parents[i]))
    return lines


def same_program(evaluation: Evaluation, parent: Evaluation) -> bool:
    """Whether a program copies its parent, with other comments or layout at most."""
    if evaluation.source is None or parent.source is None:
        return False
    return syntax_tree_id(evaluation.source) == syntax_tree_id(parent.source)


def is_better(quality: float | None, than: float) -> bool:
    return quality is not None and quality > than


def summary(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The outcomes in one competition."""
    scratch, improved, repaired = (
        [line for line in lines if line["kind"] == kind] for kind in ("scratch", "improve", "repair")
    )
    found: dict[str, Any] = {"scratch valid": fmean(line["valid"] for line in scratch)}
    cost = fmean(line["tokens"] for line in scratch)
    if improved:
        found["better"] = fmean(is_better(line["quality"], line["parent"]) for line in improved)
        found["better, chance"] = fmean(
            is_better(line["quality"], parent["quality"])
            for parent in scratch
            if parent["valid"]
            for line in scratch
            if line is not parent
        )
        found["improve valid"] = fmean(line["valid"] for line in improved)
        found["improve copies"] = fmean(line["copy"] for line in improved)
        programs = fmean(line["tokens"] for line in improved) / cost  # from scratch, for the same tokens
        found["better, equal tokens"] = 1 - (1 - found["better, chance"]) ** programs
    if repaired:
        found["repair valid"] = fmean(line["valid"] for line in repaired)
        found["repair copies"] = fmean(line["copy"] for line in repaired)
        programs = fmean(line["tokens"] for line in repaired) / cost
        found["scratch valid, equal tokens"] = 1 - (1 - found["scratch valid"]) ** programs
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(MODELS), default="coder-0.5b")
    parser.add_argument("--endpoint", help="base URL of a server that samples, such as vLLM's (this process samples)")
    parser.add_argument("--competitions", nargs="+", help="some of them (all)")
    parser.add_argument(
        "--output", type=Path, default=Path("outputs/benchmark-improving"), help="has a folder for each model"
    )
    args = parser.parse_args()
    args.output = args.output.absolute() / args.model
    names = [name for name in list_competitions() if name.startswith("mirror:") or name in LOCAL]
    competitions: list[Competition] = [*map(load_competition, names), *make_tables(args.output / "tables")]
    if args.competitions is not None:
        competitions = [item for item in competitions if {item.id, item.slug} & set(args.competitions)]
    path = args.output / "programs.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    missing = [item for item in competitions if item.id not in {line["competition"] for line in lines}]
    policy = load(args.model, args.endpoint) if missing else None
    with LocalExecutor(timeout_s=60, memory_mb=4096) as executor:
        reward = MLEReward(competitions, executor, AstInstrumenter())
        for item in missing:
            assert policy is not None
            settings = {"model": args.model, "max_tokens": MAX_TOKENS, "limits": asdict(executor.limits)}
            log = SampleLog(args.output / f"{item.slug}.jsonl", settings)
            limits = executor.limits
            new = measure(Harness(policy, item, reward, log, MAX_TOKENS, MAX_PROMPT_TOKENS, limits, 0, SAMPLES))
            with path.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in new)
            lines += new

    found = {item.id: summary([line for line in lines if line["competition"] == item.id]) for item in competitions}
    names = ["scratch valid", "better", "better, chance", "improve copies", "repair valid", "repair copies"]
    table = Table("competition", *names)
    for name, figures in found.items():
        shown = (f"{figures[column]:.2f}" if column in figures else "" for column in names)
        table.add_row(name.rpartition("/")[2], *shown)
    console = Console()
    console.print(table)
    for outcome, one, other in (
        ("improvements better than their parent, less chance", "better", "better, chance"),
        ("the same at equal tokens", "better", "better, equal tokens"),
        ("valid repairs, less valid programs from scratch", "repair valid", "scratch valid"),
        ("the same at equal tokens", "repair valid", "scratch valid, equal tokens"),
    ):
        pairs = [(figures[one], figures[other]) for figures in found.values() if one in figures]
        if len(pairs) > 1:
            mean, half = interval([a - b for a, b in pairs])
            console.print(
                f"{outcome}: {fmean(a for a, _ in pairs):.2f} against {fmean(b for _, b in pairs):.2f}, "
                f"{mean:+.3f} ± {half:.3f} ({len(pairs)} competitions)"
            )


if __name__ == "__main__":
    main()
