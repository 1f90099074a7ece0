"""
What the objectives are worth in the real trainer: a starter policy, programs that are executed, held-out rows.

    python benchmarks/objectives_training.py --seeds 0 1 2

Question: does an objective of two parts find better programs than the paper's reward, at a valid rate no lower? Primary
outcome: the share of near-best programs among those sampled from the trained policy, and their valid rate. A program is near-best
if it closes, on the rows that training saw, 95% of the gap between the median of the untrained policies' valid programs and the best
program that any policy has written. Beside them: the mean rank of valid programs among the untrained policies' valid ones, and the best of 8 and of 128 programs, chosen on
the rows that training saw and scored on those that it did not, as such a rank, too. Arms are paired by competition and seed.

From a starter policy for each competition every arm trains once for each seed, for 24 steps of 64 programs; then 256 programs are
sampled. Equal programs run once over all arms and seeds. What is there already is not run again, so that an interrupted run
goes on with the arm it was in.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from objectives_bandit import interval
from rich.console import Console
from rich.table import Table

from trl_mle.competitions import Competition, load_competition
from trl_mle.evaluation.best_of_k import best_of_k
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.policies import TransformersPolicy
from trl_mle.evaluation.sample_log import SampleLog
from trl_mle.evaluation.sampling import sample_programs
from trl_mle.execution import Executor, LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.solutions.store import ResultStore
from trl_mle.starter import StarterConfig, build_starter
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer, advantages


COMPETITIONS = ["mirror:nomad2018-predict-transparent-conductors", "mirror:random-acts-of-pizza", "digits"]
HOLDOUT = 0.5
SCALES = advantages.GAIN_SCALE, advantages.MEAN_RANK_SCALE
SAMPLES = 256
BOUNDS = {"duration_weight_low": 0.5, "duration_weight_high": 2.0}
ARMS: dict[str, dict] = {
    "reward, linear": {"duration_weighting": "linear"} | BOUNDS,
    "reward": {"duration_weighting": "none"},
    "mean_rank": {"objective": "mean_rank"},
    "max_at_k": {"objective": "max_at_k"},
}
# What the constants of the two parts were chosen from: scale of the quality part, and k
TRIALS: dict[str, dict] = {
    **{f"mean_rank, c = {c}": {"objective": "mean_rank", "scale": c} for c in (1, 3)},
    **{
        f"max_at_k, k = {k}, c = {c}": {"objective": "max_at_k", "max_at_k": k, "scale": c}
        for k in (8, 32)
        for c in (3, 10)
    },
}
TRAINING = {
    "use_cpu": not torch.cuda.is_available(),
    "bf16": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
    "logging_steps": 1,
    "gradient_checkpointing": False,
    "per_device_train_batch_size": 64,
    "num_generations": 64,
    "max_completion_length": 256,
    "improve_probability": 0.0,
    "learning_rate": 6.0e-4,
    "lr_scheduler_type": "constant",
    "max_steps": 24,
}


def train(arm: dict, start: Path, folder: Path, reward: MLEReward, competition: Competition, seed: int) -> None:
    """Trains the policy in `start`, once, and saves it with the log of its metrics."""
    if (folder / "metrics.json").is_file():
        return
    options = TRAINING | arm
    scale = options.pop("scale", None)
    advantages.GAIN_SCALE, advantages.MEAN_RANK_SCALE = SCALES if scale is None else (float(scale),) * 2
    args = MLEGRPOConfig(str(folder), seed=seed, **options)
    trainer = MLEGRPOTrainer(str(start), reward, args, competitions=[competition])
    trainer.train()
    trainer.save_model()
    (folder / "metrics.json").write_text(json.dumps(trainer.state.log_history))


def sampled(start: Path, folder: Path, reward: MLEReward, competition: Competition, seed: int) -> list[Evaluation]:
    """Programs of a policy, with a sampling seed that training never used."""
    log = SampleLog(folder / "samples.jsonl", {"policy": start.name, "seed": seed})
    harness = Harness(
        policy=TransformersPolicy.from_pretrained(str(start)),
        competition=competition,
        reward=reward,
        log=log,
        max_new_tokens=TRAINING["max_completion_length"],
        max_prompt_tokens=1024,
        limits=reward.executor.limits,
        seed=1_000_000 + seed,
    )
    return sample_programs(harness, SAMPLES)


def scores_of(competition: Competition, evaluations: list[Evaluation]) -> np.ndarray:
    """Of each program what it scores on the rows that training saw and on the others, larger is better; NaN if not valid."""
    scores = [evaluation.score for evaluation in evaluations if evaluation.reward is not None]
    gain = competition.scoring.gain
    return np.array(
        [
            [np.nan, np.nan] if score is None or score.value is None else [gain(score.value), gain(score.held_out)]
            for score in scores
        ]
    )


def rank_among(known: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The share of known scores that each one beats, of equal ones half."""
    known = np.sort(known)
    return (np.searchsorted(known, scores, "left") + np.searchsorted(known, scores, "right")) / (2 * len(known))


def best_of(k: int, scores: np.ndarray, known: np.ndarray) -> float:
    """Expected rank, on held-out rows, of the best of k programs on the others; 0 without a valid one."""
    chosen_by = [None if np.isnan(score) else score for score in scores[:, 0]]
    [best] = best_of_k(chosen_by, [min(k, len(scores))], True, reported=rank_among(known, scores[:, 1]).tolist())
    return 0.0 if best.score is None else best.valid_rate * best.score


def figures(scores: np.ndarray, known: np.ndarray, best: float, programs: list[str]) -> dict[str, float]:
    """What a policy's programs are worth, beside those of the untrained policies and the best one there is."""
    valid = scores[~np.isnan(scores[:, 0])]
    threshold = best - 0.05 * (best - np.median(known[:, 0]))
    return {
        "valid": len(valid) / len(scores),
        "near_best": float((valid[:, 0] >= threshold).sum() / len(scores)),
        "mean_rank": float(rank_among(known[:, 1], valid[:, 1]).mean()) if len(valid) else 0.0,
        "best_of_8": best_of(8, scores, known[:, 1]),
        "best_of_128": best_of(128, scores, known[:, 1]),
        "unique": len(set(programs)) / len(programs),
    }


def run(args: argparse.Namespace, executor: Executor) -> dict[str, dict[str, dict[str, float]]]:
    """Trains and samples what is missing; returns the figures of each policy, by arm and then by competition and seed."""
    store = ResultStore(args.output / "results.sqlite")
    arms = {name: (ARMS | TRIALS)[name] for name in args.arms}
    found: dict[str, dict[str, list[Evaluation]]] = {name: {} for name in ("before RL", *arms)}
    competitions = {name: load_competition(name, holdout=HOLDOUT) for name in args.competitions}
    for seed in args.seeds:
        for name, competition in competitions.items():
            case = f"{competition.slug}-{seed}"
            start = args.output / "starters" / competition.slug
            if not (start / "config.json").is_file():
                build_starter(StarterConfig(output_dir=str(start), competitions=[name]))
            for arm, options in ({"before RL": None} | arms).items():
                folder = args.output / case / arm.replace(", ", "-").replace(" = ", "").replace(" ", "-")
                folder.mkdir(parents=True, exist_ok=True)
                reward = MLEReward(
                    [competition], executor, AstInstrumenter(), show_progress=False, log_dir=folder, results=store
                )
                policy = start
                if options is not None:
                    policy = folder
                    train(options, start, folder, reward, competition, seed)
                found[arm][case] = sampled(policy, folder, reward, competition, seed)
                print(case, arm, f"{sum(item.valid for item in found[arm][case])} of {SAMPLES} valid", flush=True)
    results: dict[str, dict[str, dict[str, float]]] = {arm: {} for arm in found}
    for competition in competitions.values():
        cases = [f"{competition.slug}-{seed}" for seed in args.seeds]
        known = np.concatenate([scores_of(competition, found["before RL"][case]) for case in cases])
        known = known[~np.isnan(known[:, 0])]
        scores = {(arm, case): scores_of(competition, found[arm][case]) for arm in found for case in cases}
        best = max(np.nanmax(of_policy[:, 0]) for of_policy in scores.values())
        for (arm, case), of_policy in scores.items():
            programs = [item.source or "" for item in found[arm][case]]
            results[arm][case] = figures(of_policy, known, best, programs)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--competitions", nargs="+", default=COMPETITIONS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=[*ARMS, *TRIALS])
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-objectives"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.output.mkdir(parents=True, exist_ok=True)
    with LocalExecutor(max_parallel=1, timeout_s=10, memory_mb=4096) as executor:
        results = run(args, executor)
    (args.output / "training.json").write_text(json.dumps(results, indent=2) + "\n")

    cases = len(args.competitions) * len(args.seeds)
    table = Table(title=f"{cases} runs of each arm: mean ± 95% interval; difference: less 'reward, linear', paired")
    names = list(next(iter(results["before RL"].values())))
    for heading in ("arm", *(name.replace("_", " ") for name in names)):
        table.add_column(heading, justify="left" if heading == "arm" else "right")
    for arm, by_case in results.items():
        columns = [[row[name] for row in by_case.values()] for name in names]
        table.add_row(arm, *("{:.2f} ± {:.2f}".format(*interval(column)) for column in columns))
        base = results.get("reward, linear", {})
        if base and arm not in ("before RL", "reward, linear"):
            pairs = [[row[name] - base[case][name] for case, row in by_case.items()] for name in names]
            differences = ("{:+.2f} ± {:.2f}".format(*interval(column)) for column in pairs)
            table.add_row("  difference", *differences, style="dim")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
