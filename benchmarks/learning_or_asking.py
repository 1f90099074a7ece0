"""
Compares a small model that is trained with itself and a larger one that are asked, at equal programs and at equal seconds.

    python benchmarks/pretrained_training.py --arms "reward, linear" max_at_k --competitions COMPETITIONS     # trains
    vllm serve MODEL --dtype bfloat16 --max-model-len 2304 --generation-config vllm                           # asks: first the 0.5B
    python benchmarks/learning_or_asking.py --arms "0.5B, asked" --endpoint http://127.0.0.1:8000/v1
    python benchmarks/learning_or_asking.py --arms "1.5B, asked" --endpoint http://127.0.0.1:8000/v1
    python benchmarks/learning_or_asking.py                                                                   # the tables

Written down before the first run of an asked model (the trained runs of digits with `reward, linear` and seed 0, and with `max_at_k`, had
ended: docs/pretrained.md):

- Question, in the paper's words: does a small model that is trained by RL beat a larger one that is only asked?
- Qwen2.5-Coder-0.5B-Instruct, untrained; trained with the paper's objective (`reward, linear`), and with `max_at_k`: 24 steps of 16
  programs and 64 samples afterwards, which is 448 programs, as in `benchmarks/pretrained_training.py`. Qwen2.5-Coder-1.5B-Instruct: 448
  programs from scratch. Prompts, limits (192 tokens of a completion) and held-out rows are the same for all. (A tree search of 64 programs
  was an arm, too: docs/pretrained.md.)
- Competitions: digits, and the mirrors of spooky-author-identification and nomad2018-predict-transparent-conductors. Seeds 0 and 1;
  and 2, added before its first run, when a GPU was at hand.
- Primary outcome: of the best of all 448 programs (where samples are missing, of as many for all arms), chosen on the hidden rows that
  training sees, the score on the held-out rows, as its rank among the different scores of all arms in this competition (0 worst, 1 best;
  0 without a valid program). Mean over competitions and seeds with a bootstrap interval over both; and each trained arm less the 1.5B
  asked, paired.
- Also: the same at the seconds of the arm `reward, linear`, and the share of valid programs. Seconds are those of the policy (in training,
  the median of a step without its programs: other work stopped some steps) and of the programs, one at a time. Models that are asked are
  served by vLLM, which samples faster than training does, and get all their programs where the time allows for more. (Changed before the
  first table: seconds were those between two steps, and training on digits was timed before sampling on a CPU became faster. Digits was
  trained on a CPU core, all else ran on one H200 beside other runs, where programs of the 0.5B cost more than those of the 1.5B: these
  seconds are of little worth.)
- Also, for Δt weights: the CPU seconds of valid programs (10% and 90% quantiles), which tell how much there is to weigh.
- Added with seed 2: the same after the first 16, 64 and 192 programs, and of 8 programs of the trained policy (of the last 64 of its run;
  where samples are missing, some are of its last steps).
- It is concluded that learning beats asking if the interval of the paired difference lies above 0, and that it does not if it lies
  below; else that this experiment cannot tell.

Finished programs are lines in the output folder, and neither sampled nor executed again; `outcomes.jsonl` has the figures of each cell.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from paired import bootstrap, interval, read
from pretrained_training import SAMPLES, TRAINING
from prompts import UnseededEndpoint
from rich.console import Console
from rich.table import Table
from transformers.trainer_utils import get_last_checkpoint

from trl_mle.competitions import Competition, load_competition
from trl_mle.evaluation.best_of_k import best_of_k
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.sample_log import Sample, SampleLog
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.solutions.store import ResultStore


COMPETITIONS = "digits", "mirror:spooky-author-identification", "mirror:nomad2018-predict-transparent-conductors"
TRAINED = "reward, linear", "max_at_k"
ASKED = "0.5B, asked", "1.5B, asked"
EQUAL = "equal programs"
LIMITS = {"timeout_s": 30, "memory_mb": 4096, "max_parallel": 1}


@dataclass(frozen=True)
class Cell:
    """
    The programs of one arm in the order in which they were written: `seen` and `held_out` are scores, NaN for an invalid program,
    `ends_s` the seconds after which each had ended, and `cpu_s` its own CPU seconds. All of shape `(n,)`.
    """

    seen: np.ndarray
    held_out: np.ndarray
    ends_s: np.ndarray
    cpu_s: np.ndarray

    @classmethod
    def of(cls, evaluations: Sequence[Evaluation], policy_s: Sequence[float]) -> "Cell":
        """From the evaluations and the seconds of sampling, and of training, that each program cost."""
        scores = [(item.score.value, item.score.held_out) if item.valid else (np.nan, np.nan) for item in evaluations]  # type: ignore[union-attr]
        seen, held_out = np.array(scores, float).reshape(-1, 2).T
        programs_s = np.array([item.duration_s or 0.0 for item in evaluations], float)
        cpu_s = np.array([item.cpu_s for item in evaluations], float)
        return cls(seen, held_out, np.cumsum(programs_s + policy_s), cpu_s)


def asked(
    arm: str,
    competition: Competition,
    seed: int,
    reward: MLEReward,
    endpoint: str | None,
    args: argparse.Namespace,
) -> Cell:
    """
    The programs of an untrained model; those that are missing are sampled from an endpoint, if there is one, and those that are
    sampled are executed, unless `--sample-only`.
    """
    tokens = TRAINING["max_completion_length"]
    path = args.output / f"{arm}-{competition.slug}-{seed}.jsonl".replace(", ", "-")
    settings = {"model": arm.partition(",")[0], "max_tokens": tokens, "seed": seed}
    log = SampleLog(path, settings)
    policy: Any = None
    if endpoint is not None and len(log.written) < args.programs:
        policy = UnseededEndpoint(endpoint)
        if settings["model"].lower() not in policy.identity.lower():
            raise SystemExit(f"error: --endpoint serves {policy.identity}: its name has to say {settings['model']}")
    harness = Harness(policy, competition, reward, log, tokens, 1024, reward.executor.limits, seed, 32)
    samples = [Sample(competition.id, "scratch", index) for index in range(args.programs)]
    if policy is not None:
        for start in range(0, len(samples), harness.batch_size):
            batch = samples[start : start + harness.batch_size]
            harness.write(batch, [harness.scratch_prompt(sample.index) for sample in batch], "scratch")
    if not args.sample_only:
        harness.execute([sample for sample in samples if sample in log.written])
    done = [sample for sample in log.written if sample in log.evaluations]
    if len(done) < args.programs:
        return Cell.of([], [])
    return Cell.of([log.evaluations[sample] for sample in done], [log.written[sample].sampling_s for sample in done])


def trained(arm: str, competition: Competition, seed: int, reward: MLEReward, folder: Path, steps_of_run: int) -> Cell:
    """The programs of a run, executed again for their scores on the held-out rows, and the samples after it."""
    run = folder / f"{competition.id.rpartition(':')[2]}-{arm}-{seed}"
    checkpoint = get_last_checkpoint(str(run)) if run.is_dir() else None
    if checkpoint is None:
        return Cell.of([], [])
    history = json.loads((Path(checkpoint) / "trainer_state.json").read_text())["log_history"]
    steps = [entry for entry in history if "step_time" in entry]
    paths = sorted((run / "completions").glob("*.parquet"))
    if not len(steps) == len(paths) == steps_of_run:  # it is still training
        return Cell.of([], [])
    # Less its programs, about: the last of them began `queue_wait_s` after the first. Other work stopped some steps
    step_s = np.median(
        [entry["step_time"] - entry["mle/queue_wait_s/max"] - entry["mle/duration_s/mean"] for entry in steps]
    )
    texts, policy_s = [], list[float]()
    for path in paths:
        written = pd.read_parquet(path)["completion"]
        texts += [completion[-1]["content"] for completion in written]
        policy_s += [step_s / len(written)] * len(written)
    after = [line for line in read(run / "held-out" / "completions" / "policy.jsonl") if "text" in line][:SAMPLES]
    texts += [line["text"] for line in after]
    policy_s += [line["sampling_s"] for line in after]
    return Cell.of(reward.evaluate_many([(text, competition) for text in texts]), policy_s)


def ranks(cells: Sequence[Cell], higher_is_better: bool) -> list[np.ndarray]:
    """For each cell, the rank of each valid program's held-out score among the different ones of all cells: 0 worst, 1 best (and only)."""
    gains = [cell.held_out if higher_is_better else -cell.held_out for cell in cells]
    different = np.unique(np.concatenate(gains))
    top = int((~np.isnan(different)).sum()) - 1
    return [1 - (top - np.searchsorted(different[: top + 1], gain)) / max(1, top) for gain in gains]


def best(cell: Cell, rank: np.ndarray, count: int, higher_is_better: bool, in_order: bool) -> float:
    """The rank of the best of the first programs; where their order means nothing, the expected one of as many."""
    count = min(count, len(cell.seen))
    seen, rank = (cell.seen[:count], rank[:count]) if in_order else (cell.seen, rank)
    if not count:
        return 0.0
    scores, reported = (
        [None if np.isnan(score) else float(x) for score, x in zip(seen, values, strict=True)]
        for values in (seen, rank)
    )
    (point,) = best_of_k(scores, [count], higher_is_better, reported=reported, resamples=0)
    return 0.0 if point.score is None else point.score * point.valid_rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", help="base URL of a server with the model of --arms (only the tables)")
    parser.add_argument("--arms", nargs="+", choices=ASKED, default=[], help="whose programs are sampled")
    parser.add_argument("--programs", type=int, default=448, help="of each model that is asked")
    parser.add_argument("--steps", type=int, default=24, help="of each trained run")
    parser.add_argument("--sample-only", action="store_true", help="leave the programs to a later call, elsewhere")
    parser.add_argument("--competitions", nargs="+", default=list(COMPETITIONS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=Path("outputs/benchmark-pretrained-training"))
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-learning-or-asking"))
    args = parser.parse_args()
    args.output = args.output.absolute()
    args.output.mkdir(parents=True, exist_ok=True)
    arms = [*ASKED, *TRAINED]
    cells: dict[tuple[str, str, int], Cell] = {}
    outcomes = defaultdict[str, dict[tuple[str, str, int], float]](dict)
    console = Console()
    with LocalExecutor(**LIMITS) as executor:
        for name in args.competitions:
            competition = load_competition(name, holdout=0.5)
            reward = MLEReward([competition], executor, AstInstrumenter())
            # Equal programs of the trained arms run once, and count with the same seconds
            known = ResultStore(args.output / "results.sqlite")
            again = MLEReward([competition], executor, AstInstrumenter(), results=known)
            for arm, seed in product(arms, args.seeds):
                if arm in ASKED:
                    cell = asked(arm, competition, seed, reward, args.endpoint if arm in args.arms else None, args)
                elif args.sample_only:
                    continue
                else:
                    cell = trained(arm, competition, seed, again, args.runs.absolute(), args.steps)
                cells[name, arm, seed] = cell
            if args.sample_only:
                continue
            keys = list(product([name], arms, args.seeds))
            # After three runs on a GPU, its time was up before all samples were taken
            programs = {
                seed: min(len(cells[name, arm, seed].seen) or args.programs for arm in arms) for seed in args.seeds
            }
            higher = competition.higher_is_better
            table = Table("arm, seed", "programs", "hours", "valid", "CPU s", "best", "rank", "in equal s", title=name)
            for key, rank in zip(keys, ranks([cells[key] for key in keys], higher), strict=True):
                _, arm, seed = key
                cell, limit = cells[key], cells[name, TRAINED[0], seed].ends_s
                if not len(cell.seen):
                    console.print(f"[yellow]{name}, {arm}, {seed}: not there")
                    continue
                counts = {EQUAL: programs[seed]}
                if len(limit):
                    counts["equal seconds"] = int((cell.ends_s <= limit[-1]).sum())
                counts |= {f"first {count}": count for count in (16, 64, 192)}
                for outcome, count in counts.items():
                    outcomes[outcome][key] = best(cell, rank, count, higher, arm in TRAINED)
                last = Cell(*(values[-SAMPLES:] for values in (cell.seen, cell.held_out, cell.ends_s, cell.cpu_s)))
                ended = (last, rank[-SAMPLES:]) if arm in TRAINED else (cell, rank)
                outcomes[f"8 of the last {SAMPLES}"][key] = best(*ended, 8, higher, in_order=False)
                outcomes[f"valid, of the last {SAMPLES}"][key] = fmean(~np.isnan(ended[0].seen))
                valid_s = cell.cpu_s[~np.isnan(cell.seen)]
                spread = "–".join(f"{x:.2f}" for x in np.nanquantile(valid_s, [0.1, 0.9])) if len(valid_s) else ""
                gains = cell.seen if higher else -cell.seen
                chosen = "" if np.isnan(gains).all() else f"{cell.held_out[np.nanargmax(gains)]:.4g}"
                figures = (
                    f"{len(gains)}",
                    f"{cell.ends_s[-1] / 3600:.2f}",
                    f"{fmean(~np.isnan(gains)):.2f}",
                    spread,
                    chosen,
                )
                shown = (f"{outcomes[outcome].get(key, np.nan):.2f}" for outcome in (EQUAL, "equal seconds"))
                table.add_row(f"{arm}, {seed}", *figures, *shown)
            console.print(table)

    if args.sample_only:
        return
    with (args.output / "outcomes.jsonl").open("w") as file:
        for (name, arm, seed), cell in cells.items():
            if len(cell.seen):
                key = name, arm, seed
                figures = {outcome: round(found[key], 4) for outcome, found in outcomes.items() if key in found}
                line = {"competition": name, "arm": arm, "seed": seed, "programs": len(cell.seen)} | figures
                scores = {"seen": cell.seen, "held_out": cell.held_out, "ends_s": cell.ends_s}
                line |= {key: [round(x, 5) for x in values.tolist()] for key, values in scores.items()}
                file.write(json.dumps(line).replace("NaN", "null") + "\n")
    table = Table("rank of the best", *arms, title="mean, and 95% interval over competitions and seeds")
    for outcome, found in outcomes.items():
        row = []
        for arm in arms:
            seeds = [seed for seed in args.seeds if all((name, arm, seed) in found for name in args.competitions)]
            figures = np.array([[found[name, arm, seed] for seed in seeds] for name in args.competitions])
            row.append("{:.2f} ({:.2f} to {:.2f})".format(*bootstrap(figures)) if seeds else "")
        table.add_row(outcome, *row)
    console.print(table)
    compared = [*product(TRAINED, ("0.5B, asked", "1.5B, asked")), TRAINED[::-1]]
    for outcome, (arm, other) in product(outcomes, compared):
        found = outcomes[outcome]
        pairs = [
            found[name, arm, seed] - found[name, other, seed]
            for name, seed in product(args.competitions, args.seeds)
            if {(name, arm, seed), (name, other, seed)} <= found.keys()
        ]
        if len(pairs) > 1:
            difference = "{:+.2f} ± {:.2f}, {} pairs".format(*interval(pairs), len(pairs))
            console.print(f"{outcome}: {arm}, less {other}: {difference}")


if __name__ == "__main__":
    main()
