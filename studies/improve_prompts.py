"""
Measures improve prompts: does the policy learn to improve *the program that it is shown*?

    python studies/improve_prompts.py

Written down before the first run:

- Question: with improve prompts in training, does an improvement beat its parent more often than a program from scratch would,
  is that because of the parent that the policy sees, and is the best program found at test time better?
- The real trainer with `max_at_k` on digits and one mirror, from starters that have learnt edits (three quarters of their corpus): 24
  steps of 64 programs in four groups of 16.
- Arms of training: on (half of the groups are shown a solution of the pool); off. (A third arm, trained with the wrong parents,
  was dropped before the first run: rewards do not depend on the parent, so that it would only sample the pool differently.)
- At test time as in the paper: 64 programs from scratch, then one improvement of each valid one. Then once more with the wrong
  parent: the prompt shows another valid program of the 64, at random, with its output.
- Primary outcome: the share of improvements that beat their parent, less the chance level: the share of pairs of a program from
  scratch and a parent in which the program is better. Two differences, paired by competition and seed, two-sided t tests, Holm's
  correction: on less off; and on, with the right parents less with the wrong ones.
- Also: the share of its lines that an improvement has in common with its parent, and with another valid program of the 64.
- Also: the rank of the best of all those programs (chosen on the rows that training saw, scored on the others) among the
  valid programs of the untrained policies, and of the best of as many from scratch alone.
- The starters can copy. In a first experiment (studies/improve_prompts.md), they had learnt from 2,880 edits, and an improvement shared no more
  lines with its parent than with any other program. Now they learn from 12,960 edits, whose plan names what they change, and 4,320
  programs from scratch: on digits, the log-likelihood of an edit is 18 nats larger given its parent than given another program (0.5
  after 1,920 programs), and 62 sampled improvements shared 0.71 of their lines with their parent, 0.50 with another one. Written
  down before the first run with these starters.
- Three seeds on each competition, so six pairs. A finished run is a line of `runs.jsonl`, and is not run again.
"""

import argparse
import json
import random
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from cells import BEFORE, HOLDOUT
from objectives_training import TRAINING
from rich.console import Console
from rich.table import Table
from shared import hypotheses, interval, read

from trl_mle.competitions import load_competition
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.policies import TransformersPolicy
from trl_mle.evaluation.sample_log import SampleLog
from trl_mle.evaluation.sampling import sample_programs
from trl_mle.evaluation.self_improvement import improve_each
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.solutions.store import ResultStore
from trl_mle.starter.build import StarterConfig, build_starter
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


COMPETITIONS = ["digits", "mirror:nomad2018-predict-transparent-conductors"]
ARMS = {"on": 0.5, "off": 0.0}  # improve_probability
SAMPLES = 64  # from scratch; as many more for comparison with the improvements
PROMPT_TOKENS = 1536
CONFIG = TRAINING | {"objective": "max_at_k", "num_generations": 16, "max_prompt_length": PROMPT_TOKENS}


def train(start: Path, folder: Path, arm: str, seed: int, reward: MLEReward, competition: Any) -> None:
    args = MLEGRPOConfig(str(folder), seed=seed, **CONFIG | {"improve_probability": ARMS[arm]})
    trainer = MLEGRPOTrainer(str(start), reward, args, competitions=[competition])
    trainer.train()
    trainer.save_model()


def scores(evaluation: Evaluation, competition: Any) -> tuple[float, float] | None:
    """Scores on the rows that training saw and on the others, larger is better."""
    if not evaluation.valid or evaluation.score is None:
        return None
    gain = competition.scoring.gain
    return gain(evaluation.score.value), gain(evaluation.score.held_out)


def wrong_parents(evaluations: list[Evaluation], seed: int) -> list[Evaluation]:
    """The same list with another valid program in the place of each valid one."""
    rng = random.Random(seed)
    valid = [evaluation for evaluation in evaluations if evaluation.valid]
    shown = []
    for evaluation in evaluations:
        others = [other for other in valid if other.source != evaluation.source]
        shown.append(rng.choice(others) if evaluation.valid and others else evaluation)
    return shown


def lines_shared(one: Evaluation, other: Evaluation) -> float:
    """The share of their distinct lines that two programs have in common."""
    lines, others = (set((program.source or "").splitlines()) for program in (one, other))
    return len(lines & others) / max(1, len(lines | others))


def test(policy: Path, folder: Path, seed: int, reward: MLEReward, competition: Any) -> dict[str, Any]:
    """Runs the paper's protocol, once more with the wrong parents, and as many programs from scratch."""
    harness = Harness(
        policy=TransformersPolicy.from_pretrained(str(policy)),
        competition=competition,
        reward=reward,
        log=SampleLog(folder / "samples.jsonl", {"policy": policy.name, "seed": seed}),
        max_new_tokens=CONFIG["max_completion_length"],
        max_prompt_tokens=PROMPT_TOKENS,
        begin_program=False,
        limits=reward.executor.limits,
        seed=1_000_000 + seed,
    )
    log = SampleLog(folder / "wrong.jsonl", {"policy": policy.name, "seed": seed})
    of_wrong = replace(harness, log=log, seed=2_000_000 + seed)
    first = sample_programs(harness, 2 * SAMPLES)
    parents = first[:SAMPLES]
    found = {"pairs": improve_each(harness, parents), "wrong": improve_each(of_wrong, wrong_parents(parents, seed))}
    improved = {
        name: [
            (parent, item.improved) for parent, item in zip(parents, items, strict=True) if item.improved is not None
        ]
        for name, items in found.items()
    }
    right = improved["pairs"]
    others = [other for other, _ in right[1:] + right[:1]]
    return {
        "scratch": [scores(evaluation, competition) for evaluation in first],
        **{
            name: [(scores(parent, competition), scores(better, competition)) for parent, better in pairs]
            for name, pairs in improved.items()
        },
        "shared": [lines_shared(better, parent) for parent, better in right],
        "shared, other": [lines_shared(better, other) for (_, better), other in zip(right, others, strict=True)],
    }


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
    beats, beats_wrong = (
        fmean(better is not None and better[0] > parent[0] for parent, better in line[name]) if line[name] else 0.0
        for name in ("pairs", "wrong")
    )
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
        "beats": beats,
        "beats, wrong": beats_wrong,
        "chance": chance,
        "lines shared": fmean(line["shared"] or [0.0]),
        "with another": fmean(line["shared, other"] or [0.0]),
        "best, improving": rank_of_best(executed),
        "best, scratch": rank_of_best(line["scratch"][: len(executed)]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--competitions", nargs="+", default=COMPETITIONS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output", type=Path, default=Path("outputs/studies/improve-prompts"))
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
                build_starter(StarterConfig(str(start), [name], num_programs=17_280, improve_share=0.75))
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
    table = Table("improve prompts", *found)  # policies as columns: eight figures do not fit 80 characters
    for name in names:
        table.add_row(
            name, *("{:.2f} ± {:.2f}".format(*interval([row[name] for row in rows])) for rows in found.values())
        )
    console.print(table)
    if len(found[BEFORE]) > 1:
        pairs = {
            "on, less off": [
                (on["beats"] - on["chance"], off["beats"] - off["chance"])
                for on, off in zip(found["on"], found["off"], strict=True)
            ],
            "on, less on with the wrong parents": [(on["beats"], on["beats, wrong"]) for on in found["on"]],
        }
        console.print(hypotheses("beats its parent, beyond chance", pairs))


if __name__ == "__main__":
    main()
