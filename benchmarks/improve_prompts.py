"""
Measures improve prompts: does the policy learn to improve *the program that it is shown*?

    python benchmarks/improve_prompts.py

Written down before the first run:

- Question: with improve prompts in training, does an improvement beat its parent more often than a program from scratch would,
  and is the best program found at test time better?
- The real trainer with `max_at_k` on digits and one mirror, from starters that have learnt edits (half of their corpus): 24
  steps of 64 programs in four groups of 16.
- Arms: on (half of the groups are shown a solution of the pool); off; wrong parent (they are shown another solution of
  the pool than the one that counts as the parent). All three are tested with the right parents.
- Primary outcome, at test time as in the paper: 64 programs from scratch, then one improvement of each valid one. Share of the
  improvements that beat their parent, less the chance level: the share of pairs of a program from scratch and a parent in which
  the program is better. On against off, and on against wrong parent: two differences, paired by competition and seed, two-sided
  t tests, Holm's correction.
- Also: the rank of the best of all those programs (chosen on the rows that training saw, scored on the others) among the
  valid programs of the untrained policies, and of the best of as many from scratch alone.
- Three seeds on each competition, so six pairs (six seeds at first; halved for the budget before the first run). A finished run
  is a line of `runs.jsonl`, and is not run again.
"""

import argparse
import json
import random
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from cells import HOLDOUT, read
from objectives_training import TRAINING
from paired import hypotheses, interval
from rich.console import Console
from rich.table import Table

from trl_mle.competitions import load_competition
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.policies import TransformersPolicy
from trl_mle.evaluation.sample_log import SampleLog
from trl_mle.evaluation.sampling import sample_programs
from trl_mle.evaluation.self_improvement import improve_each
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.solutions.pool import Solution
from trl_mle.solutions.store import ResultStore
from trl_mle.starter import StarterConfig, build_starter
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer
from trl_mle.trainer.solution_prompts import SolutionPrompts


COMPETITIONS = ["digits", "mirror:nomad2018-predict-transparent-conductors"]
BEFORE = "before RL"
ARMS = {"on": 0.5, "off": 0.0, "wrong parent": 0.5}  # improve_probability
SAMPLES = 64  # from scratch; as many more for comparison with the improvements
PROMPT_TOKENS = 1536
CONFIG = TRAINING | {"objective": "max_at_k", "num_generations": 16, "max_prompt_length": PROMPT_TOKENS}


class WrongParents(SolutionPrompts):
    """Shows another solution of the pool than the one that counts as the parent."""

    def prompt_with(self, parent: Solution) -> list[dict[str, str]]:
        others = [solution for solution in self.pool.ranked(parent.competition) if solution.id != parent.id]
        shown = random.Random(f"{parent.id}-{self.generation}").choice(others) if others else parent
        return super().prompt_with(shown)


def train(start: Path, folder: Path, arm: str, seed: int, reward: MLEReward, competition: Any) -> None:
    args = MLEGRPOConfig(str(folder), seed=seed, **CONFIG | {"improve_probability": ARMS[arm]})
    trainer = MLEGRPOTrainer(str(start), reward, args, competitions=[competition])
    if arm == "wrong parent":
        right = trainer.solution_prompts
        trainer.solution_prompts = WrongParents(right.competitions, args, right.limits, right.count_tokens)
    trainer.train()
    trainer.save_model()


def scores(evaluation: Evaluation, competition: Any) -> tuple[float, float] | None:
    """Scores on the rows that training saw and on the others, larger is better."""
    if not evaluation.valid or evaluation.score is None:
        return None
    gain = competition.scoring.gain
    return gain(evaluation.score.value), gain(evaluation.score.held_out)


def test(policy: Path, folder: Path, seed: int, reward: MLEReward, competition: Any) -> dict[str, Any]:
    """Runs the paper's protocol, and as many programs from scratch."""
    harness = Harness(
        policy=TransformersPolicy.from_pretrained(str(policy)),
        competition=competition,
        reward=reward,
        log=SampleLog(folder / "samples.jsonl", {"policy": policy.name, "seed": seed}),
        max_new_tokens=CONFIG["max_completion_length"],
        max_prompt_tokens=PROMPT_TOKENS,
        limits=reward.executor.limits,
        seed=1_000_000 + seed,
    )
    first = sample_programs(harness, 2 * SAMPLES)
    improvements = improve_each(harness, first[:SAMPLES])
    of_scratch = [scores(evaluation, competition) for evaluation in first]
    pairs = [
        (scores(item.scratch, competition), scores(item.improved, competition))
        for item in improvements
        if item.improved is not None
    ]
    return {"scratch": of_scratch, "pairs": pairs}


def figures(line: dict[str, Any], before: np.ndarray) -> dict[str, float]:
    """
    The figures of a run.

    Args:
        line (`dict`):
            Scores of its programs, on the rows that training saw and on the others.
        before (`ndarray` of shape `(programs,)`):
            Scores of the untrained policies' valid programs on the other rows.

    Returns:
        `dict[str, float]`: Shares, and ranks among `before`.
    """
    beats = [better is not None and better[0] > parent[0] for parent, better in line["pairs"]]
    parents = [parent[0] for parent, _ in line["pairs"]]
    others = [score[0] if score is not None else -np.inf for score in line["scratch"][SAMPLES:]]
    chance = fmean(float(other > parent) for parent, other in product(parents, others)) if parents else 0.0

    def rank_of_best(programs: list) -> float:
        valid = [score for score in programs if score is not None]
        return float((before < max(valid)[1]).mean()) if valid else 0.0

    improved = [better for _, better in line["pairs"]]
    executed = line["scratch"][:SAMPLES] + improved
    return {
        "valid": fmean(score is not None for score in line["scratch"]),
        "beats": fmean(beats) if beats else 0.0,
        "chance": chance,
        "beyond chance": (fmean(beats) if beats else 0.0) - chance,
        "best, improving": rank_of_best(executed),
        "best, scratch": rank_of_best(line["scratch"][: len(executed)]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--competitions", nargs="+", default=COMPETITIONS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-improve-prompts"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.output.mkdir(parents=True, exist_ok=True)
    lines = args.output / "runs.jsonl"
    store = ResultStore(args.output / "results.sqlite")
    runs = {(line["competition"], line["seed"], line["arm"]): line for line in read(lines)}
    with LocalExecutor(max_parallel=1, timeout_s=10, memory_mb=4096) as executor:
        for seed, name, arm in product(args.seeds, args.competitions, [BEFORE, *ARMS]):
            if (name, seed, arm) in runs:
                continue
            competition = load_competition(name, holdout=HOLDOUT)
            start = args.output / "starters" / competition.slug
            if not (start / "README.md").is_file():  # written last
                build_starter(StarterConfig(output_dir=str(start), competitions=[name], improve_share=0.5))
            folder = args.output / f"{competition.slug}-{seed}" / arm.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            reward = MLEReward([competition], executor, AstInstrumenter(), show_progress=False, results=store)
            if arm != BEFORE:
                train(start, folder, arm, seed, reward, competition)
            line = test(start if arm == BEFORE else folder, folder, seed, reward, competition)
            runs[name, seed, arm] = line | {"competition": name, "seed": seed, "arm": arm}
            with lines.open("a") as file:
                file.write(json.dumps(runs[name, seed, arm]) + "\n")
            print(name, seed, arm, flush=True)

    found: dict[str, list[dict[str, float]]] = {arm: [] for arm in (BEFORE, *ARMS)}
    for name in args.competitions:
        before = [score for seed in args.seeds for score in runs[name, seed, BEFORE]["scratch"] if score is not None]
        others = np.array([score[1] for score in before])
        for seed, arm in product(args.seeds, found):
            found[arm].append(figures(runs[name, seed, arm], others))
    console = Console()
    names = list(found[BEFORE][0])
    table = Table("improve prompts", *names)
    for arm, rows in found.items():
        table.add_row(arm, *("{:.2f} ± {:.2f}".format(*interval([row[name] for row in rows])) for name in names))
    console.print(table)
    if len(found[BEFORE]) > 1:
        pairs = {
            f"on, less {other}": [
                (one["beyond chance"], two["beyond chance"])
                for one, two in zip(found["on"], found[other], strict=True)
            ]
            for other in ("off", "wrong parent")
        }
        console.print(hypotheses("beats its parent, beyond chance", pairs))


if __name__ == "__main__":
    main()
