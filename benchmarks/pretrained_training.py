"""
Does training find better programs than asking? A model of 0.5 billion weights is trained, and asked, and a larger one is asked.

    python benchmarks/pretrained_training.py
    python benchmarks/pretrained_training.py --arms "asked, ideas" --endpoint http://127.0.0.1:8000/v1   # vllm serve MODEL …

Questions that docs/results.md answers have left this file; commit 84082e1 has them, and `learning_or_asking.py`, whose outcomes are compared
here. Written down before the first run (2026-11-28):

- Question: with ideas in its prompts, does a model that is trained find better programs than the same model asked with the same ideas, at
  equal programs?
- Qwen2.5-Coder-0.5B-Instruct in bfloat16 with LoRA. 24 steps of 16 programs in two groups, each with one idea of the default list in turn, and
  64 samples afterwards with the same ideas: 448 programs. At most 192 tokens. The mirror of nomad2018-predict-transparent-conductors and digits
  first, then the mirror of spooky-author-identification; seeds 0 and 1. Half of the hidden rows choose, the others are reported.
- Arms: `ideas` (`max_at_k`, k = 4). Asked: `asked, ideas`. From earlier outcomes: the 0.5B and the 1.5B asked without ideas, and trained with
  `reward` and `max_at_k`. (Credit that copies share left before its first run: no better in the simulation of docs/results.md, "Objectives", and
  with the tiny policy.)
- Primary outcome: of the best of all 448 programs, chosen on the rows that training sees, the score on the others, as its rank among the
  different scores of all cells of its competition (0 worst, 1 best; 0 without a valid program). `ideas` less `asked, ideas`, paired by
  competition and seed, with a 95% interval; then less the 0.5B and the 1.5B asked without ideas.
- Also: different scores among the 448, the share of valid programs, in the last six steps and afterwards, the expected best of 8 (and, asked for on
  2026-11-30, of 64), of the programs after training, or of all where nothing is trained.
- Rule: ideas become the default of the recipes that are not the paper's if the interval of `ideas` less the 0.5B asked lies above 0. Until there are
  two seeds of two competitions, nothing is concluded. (It did with four pairs, +0.36 ± 0.34; with spooky's it does not, +0.23 ± 0.28. They stay for
  what they give to training.)

Written down when `asked, ideas` had ended on nomad2018 with seed 0, and `ideas` was at step 14 there (as good as asking, at equal programs),
before the first run of these:

- Question: where half of the groups are asked for variations of the best ideas, does training, which makes programs valid, find better ones
  than the same asking without it?
- Arms: `ideas, varied`; `asked, ideas, varied`: the same with a learning rate of 0, so that prompts are chosen in the same way.
- Primary outcome and rule as above, `ideas, varied` less `asked, ideas, varied`, then less `ideas`.

Written down on 2026-11-30, before the first run of each:

- Are 64 samples of the 0.5B trained with ideas (`ideas`) worse than 64 programs of the 1.5B asked with the same ideas? The best of 64 as such a rank, less
  `1.5B, asked, ideas`, on the three competitions with both seeds; it runs with `--steps 0` and the endpoint of a 1.5B.
- Do variations of the best ideas find better programs than asking for all ideas in turn? `trl-mle solve --ideas default` of the untrained 0.5B, until it
  has 448 programs, half of which vary an idea, less `asked, ideas`: the best of all programs as such a rank; as many pairs as there is time for, seed 0 of
  each competition first.

Written down before its first run: with a GPU, `gpu.py --part queue` measures all arms with seeds 0, 1 and 2, and then, in a folder of their
own, `ideas` and `asked, ideas` of Qwen2.5-Coder-1.5B-Instruct, with a learning rate of 5e-5 and 64 programs a step: 1,600 programs each.

A finished step is kept: a run that was interrupted goes on from its last checkpoint. A finished cell is a line of `cells.jsonl`, and is not run again.
"""

import argparse
import json
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from paired import evaluations, interval, read
from peft import LoraConfig
from rich.table import Column, Table

from trl_mle.competitions import Score, load_competition
from trl_mle.evaluation.best_of_k import best_of_k
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import MLEReward
from trl_mle.showing import PlainConsole
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer
from trl_mle.trainer.engine.checkpoint import damage, find_checkpoints


CUDA = torch.cuda.is_available()
COMPETITIONS = "mirror:nomad2018-predict-transparent-conductors", "digits", "mirror:spooky-author-identification"
IDEAS = {"ideas": "default", "num_generations": 8, "max_at_k": 4}
ARMS: dict[str, dict[str, Any]] = {
    "ideas": {"objective": "max_at_k", **IDEAS},
    "ideas, varied": {"objective": "max_at_k", **IDEAS, "improve_probability": 0.5},
    "asked, ideas, varied": {"objective": "max_at_k", **IDEAS, "improve_probability": 0.5, "learning_rate": 0.0},
    "asked, ideas": {"ideas": "default"},
    "1.5B, asked, ideas": {"ideas": "default"},
}
ASKED = "asked, ideas", "1.5B, asked, ideas"
EARLIER = "0.5B, asked", "1.5B, asked", "reward, linear", "max_at_k"
ALIKE = *ASKED, "0.5B, asked", "1.5B, asked"  # arms whose programs come from one policy
KS = 8, 64
TRAINING = {
    "objective": "reward", "duration_weighting": "none", "improve_probability": 0.0, "beta": 0.0,
    "per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "num_generations": 16, "share_prompts": True,
    "max_completion_length": 192, "max_prompt_length": 1024, "temperature": 1.0,
    "generation_kwargs": None if CUDA else {"cache_implementation": "static"}, "model_init_kwargs": {"dtype": "bfloat16"},
    "learning_rate": 2e-4, "lr_scheduler_type": "constant", "gradient_checkpointing": False,
    "use_cpu": not CUDA, "bf16": False, "logging_steps": 1, "report_to": "none", "disable_tqdm": True,
    "save_strategy": "steps", "save_steps": 1, "save_total_limit": 1,
    "log_completions": True,  # the answers of each step, in `completions/`
}  # fmt: skip
LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
STEP, LAST, SAMPLES = 16, 6, 64  # programs of a step, steps, programs after training
AT_ONCE = None if CUDA else 1  # programs; on a machine with a GPU, as many as cores
KNOWN = Path(__file__).parent / "results" / "benchmark-learning-or-asking" / "outcomes.jsonl"


class Recorded(MLEReward):
    """Writes the scores of each batch, in the order of its completions, to a line of `path`."""

    path: Path

    def __call__(
        self, prompts: list[Any], completions: list[Any], *, evaluation: Any = None, **kwargs: Any
    ) -> list[float | None]:
        with self.path.open("a") as file:
            file.write(json.dumps([scores_of(item.score) for item in evaluation]) + "\n")
        return super().__call__(prompts, completions, evaluation=evaluation, **kwargs)


def scores_of(score: Score | None) -> tuple[float | None, float | None]:
    """A program's scores on the rows that choose, and on the others."""
    return (score.value, score.held_out) if score is not None and score.valid else (None, None)


def train(competition: str, arm: str, seed: int, folder: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Trains and returns what each step logged; `scores.jsonl` has the scores of each step's programs."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = [str(checkpoint) for checkpoint in find_checkpoints(folder) if damage(checkpoint) is None]
    checkpoint, path = whole[0] if whole else None, folder / "scores.jsonl"
    if path.exists():  # without those of a step that is taken again
        done = int(checkpoint.rpartition("-")[2]) if checkpoint else 0
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:done]))
    with LocalExecutor(timeout_s=30, memory_mb=4096, max_parallel=AT_ONCE) as executor:
        task = load_competition(competition, holdout=0.5)
        reward = Recorded([task], executor, AstInstrumenter(), show_progress=False)
        reward.path = path
        sizes = {"gradient_accumulation_steps": args.programs // 8, "learning_rate": args.learning_rate}
        config = MLEGRPOConfig(str(folder), seed=seed, max_steps=args.steps, **(TRAINING | sizes | ARMS[arm]))
        trainer = MLEGRPOTrainer(args.model, reward, config, competitions=[task], peft_config=LoraConfig(**LORA))
        trainer.train(resume_from_checkpoint=checkpoint)
        trainer.save_model()
    return [entry for entry in trainer.state.log_history if "mle/valid_rate" in entry]


def evaluate(policy: str, competitions: str, folder: Path, **options: Any) -> None:
    """Samples programs from a policy, and writes their scores to a folder."""
    options = {
        "output_dir": folder, "policies": policy, "names": "policy", "competitions": competitions,
        "max_completion_length": TRAINING["max_completion_length"], "program_timeout_s": 30,
    } | ({"max_parallel_programs": AT_ONCE} if AT_ONCE else {}) | options  # fmt: skip
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    subprocess.run([sys.executable, "-m", "trl_mle.cli", "evaluate", *words], check=True, stdout=subprocess.DEVNULL)


def sample(policy: str, competition: str, arm: str, seed: int, count: int, folder: Path) -> list[Any]:
    """The scores of programs sampled from a policy."""
    ideas = ARMS[arm].get("ideas", "none")
    options = {"holdout": 0.5, "num_samples": count, "batch_size": 32, "ideas": ideas, "seed": 1_000_000 + seed}
    evaluate(policy, competition, folder, **options)
    lines = evaluations(folder / "policy.jsonl")
    return [scores_of(Score(**line["score"]) if line["score"] else None) for line in lines]


def measure(competition: str, arm: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """The line of a cell."""
    folder = args.output / f"{competition.rpartition(':')[2]}-{arm}-{seed}".replace(", ", "-")
    began, steps, scores = time.monotonic(), list[dict[str, Any]](), []
    if arm in ASKED:
        policy, count = args.endpoint or args.model, args.steps * args.programs + args.samples
    else:
        steps = train(competition, arm, seed, folder, args)
        scores = [score for step in read(folder / "scores.jsonl") for score in step]
        policy, count = str(folder), args.samples
    scores += sample(policy, competition, arm, seed, count, folder / "sampled")
    line = {"competition": competition, "arm": arm, "seed": seed, "hours": round((time.monotonic() - began) / 3600, 2)}
    line |= {name: [entry.get(f"mle/{name}") for entry in steps] for name in ("valid_rate", "scores", "rescues")}
    return line | dict(zip(("seen", "held_out"), zip(*scores, strict=True), strict=True))


def chosen(line: dict[str, Any], higher: bool) -> tuple[float, float]:
    """The scores of the program that is best on the rows that choose; NaN without a valid one."""
    scores = [pair for pair in zip(line["seen"], line["held_out"], strict=True) if pair[0] is not None]
    return (max if higher else min)(scores, key=lambda pair: pair[0], default=(np.nan, np.nan))


def rank(score: float, higher: bool, known: np.ndarray) -> float:
    """The share of the other known scores that a score beats; 0 for NaN."""
    beaten = score - known if higher else known - score
    return float((beaten > 1e-9).sum() / max(1, len(known) - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(Path("~/.cache/trl_mle/models/coder-0.5b").expanduser()))
    parser.add_argument("--endpoint", help="base URL of a server of the model, for asked arms")
    parser.add_argument("--competitions", nargs="+", default=list(COMPETITIONS))
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=["ideas", ASKED[0]])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--programs", type=int, default=STEP, help="of a step, a multiple of 16")
    parser.add_argument("--learning_rate", type=float, default=TRAINING["learning_rate"])
    parser.add_argument("--samples", type=int, default=SAMPLES, help="programs of each trained policy, at least 8")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-pretrained-training"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / "cells.jsonl"
    cells = {(line["competition"], line["arm"], line["seed"]): line for line in read(path)}
    for key in product(args.competitions, args.arms, args.seeds):
        if key not in cells:
            cells[key] = measure(*key, args)
            with path.open("a") as file:
                file.write(json.dumps(cells[key]) + "\n")
    earlier = {(line["competition"], line["arm"], line["seed"]): line for line in read(KNOWN)}
    cells |= {key: earlier[key] for key in product(args.competitions, EARLIER, args.seeds) if key in earlier}

    best: dict[str, dict[tuple[str, str, int], float]] = {"all": {}} | {
        str(k): {} for k in KS
    }  # the best of k, as ranks
    for competition in args.competitions:
        higher = load_competition(competition).higher_is_better
        lines = [line for (name, _, _), line in cells.items() if name == competition]
        known = np.unique([score for line in lines for score in line["held_out"] if score is not None])
        columns = (
            Column("arm, seed", no_wrap=True),
            "valid",
            "after",
            "scores",
            "held out",
            *(f"of {k}" for k in best),
        )
        table = Table(*columns, title=competition)
        for key, line in sorted((key, line) for key, line in cells.items() if key[0] == competition):
            _, held_out = chosen(line, higher)
            seen, reported = np.array([line["seen"], line["held_out"]], dtype=float)  # NaN for None
            count = len(seen) if key[1] in ALIKE else args.samples
            after = [None if np.isnan(score) else rank(score, higher, known) for score in reported[-count:]]
            ks = [k for k in KS if k <= count]
            best["all"][key] = rank(held_out, higher, known)
            for point in best_of_k(line["seen"][-count:], ks, higher, reported=after, resamples=0):
                best[str(point.k)][key] = (point.score or 0.0) * point.valid_rate
            shares = (float((~np.isnan(values)).mean()) for values in (seen, seen[-count:]))
            ranks = [f"{found.get(key, np.nan):.2f}" for found in best.values()]
            scores = len(set(line["seen"]) - {None})
            table.add_row(
                f"{key[1]}, {key[2]}", *(f"{share:.2f}" for share in shares), f"{scores}", f"{held_out:.3g}", *ranks
            )
        PlainConsole().print(table)
    for (outcome, ranks), arm, other in product(best.items(), ARMS, (*ARMS, *EARLIER)):
        pairs = [
            ranks[name, arm, seed] - ranks[name, other, seed]
            for name, seed in product(args.competitions, args.seeds)
            if arm != other and {(name, arm, seed), (name, other, seed)} <= ranks.keys()
        ]
        if len(pairs) > 1:
            difference = "{:+.2f} ± {:.2f}, {} pairs".format(*interval(pairs), len(pairs))
            print(f"best of {outcome}, {arm}, less {other}: {difference}")


if __name__ == "__main__":
    main()
