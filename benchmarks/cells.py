"""Cells of an experiment: a policy trained with one arm's options from one seed, and programs sampled from it."""

import datetime
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trl_mle.competitions import load_competition
from trl_mle.evaluation.best_of_k import best_of_k
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.policies import TransformersPolicy
from trl_mle.evaluation.sample_log import SampleLog
from trl_mle.evaluation.sampling import sample_programs
from trl_mle.execution import Executor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.solutions.store import ResultStore
from trl_mle.starter import StarterConfig, build_starter
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer, advantages


BEFORE = "before RL"  # the arm that is not trained
HOLDOUT = 0.5
QUALITY_SCALE = advantages.QUALITY_SCALE


@dataclass(frozen=True)
class Cell:
    """
    One policy.

    Args:
        competition (`str`):
            Its id.
        arm (`str`):
            Name of what is compared; [`BEFORE`] is the starter policy itself.
        seed (`int`):
            Of training, and of sampling.
    """

    competition: str
    arm: str
    seed: int

    @property
    def folder(self) -> str:
        slug = load_competition(self.competition).slug
        return f"{slug}-{self.seed}/{self.arm.replace(', ', '-').replace(' = ', '').replace(' ', '-')}"


class Experiment:
    """
    Runs cells, each once: a finished one is a line of `cells.jsonl`, and one that was interrupted goes on where it was,
    training from its beginning. Equal programs run once over all cells.

    Args:
        output (`Path`):
            Folder of the starters, the policies, and the lines.
        executor ([`~trl_mle.execution.Executor`]):
            Runs the programs.
        training (`dict`):
            Fields of `MLEGRPOConfig` that all arms share.
    """

    def __init__(self, output: Path, executor: Executor, training: Mapping[str, Any]):
        self.output = output
        self.executor = executor
        self.training = training
        output.mkdir(parents=True, exist_ok=True)
        self.lines = output / "cells.jsonl"
        self.store = ResultStore(output / "results.sqlite")

    def run(self, cell: Cell, options: Mapping[str, Any] | None, num_samples: int) -> dict[str, Any]:
        """Trains and samples a policy, and returns its line; `options` are those of its arm, `None` for no training."""
        for line in read(self.lines):
            if (line["competition"], line["arm"], line["seed"]) == (cell.competition, cell.arm, cell.seed):
                return line
        competition = load_competition(cell.competition, holdout=HOLDOUT)
        start, folder = self.output / "starters" / competition.slug, self.output / cell.folder
        if not (start / "config.json").is_file():
            build_starter(StarterConfig(output_dir=str(start), competitions=[cell.competition]))
        folder.mkdir(parents=True, exist_ok=True)
        reward = MLEReward(
            [competition],
            self.executor,
            AstInstrumenter(),
            show_progress=False,
            log_dir=folder,
            results=self.store,
        )
        policy, cost = start, {}
        if options is not None:
            policy, cost = folder, self._train(options, start, folder, reward, cell)
        log = SampleLog(folder / "samples.jsonl", {"policy": policy.name, "seed": cell.seed})
        harness = Harness(
            policy=TransformersPolicy.from_pretrained(str(policy)),
            competition=competition,
            reward=reward,
            log=log,
            max_new_tokens=self.training["max_completion_length"],
            max_prompt_tokens=self.training["max_prompt_length"],
            limits=self.executor.limits,
            seed=1_000_000 + cell.seed,  # which training never used
        )
        samples = sample_programs(harness, num_samples)
        line = {
            "competition": cell.competition,
            "arm": cell.arm,
            "seed": cell.seed,
            "options": dict(options) if options else {},
            "training": cost,
            "scores": [scores_of(sample) for sample in samples],
            "unique": len({sample.source for sample in samples}),
            "finished": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
            "machine": "cuda" if torch.cuda.is_available() else platform.machine(),
        }
        with self.lines.open("a") as lines:
            lines.write(json.dumps(line) + "\n")
        return line

    def _train(
        self, options: Mapping[str, Any], start: Path, folder: Path, reward: MLEReward, cell: Cell
    ) -> dict[str, float]:
        """Trains the policy in `start`, and saves it with the log of its metrics; returns what that cost."""
        metrics = folder / "metrics.json"
        if not metrics.is_file():
            options = dict(self.training) | dict(options)
            advantages.QUALITY_SCALE = options.pop("scale", QUALITY_SCALE)
            args = MLEGRPOConfig(str(folder), seed=cell.seed, **options)
            trainer = MLEGRPOTrainer(
                str(start), reward, args, competitions=[load_competition(cell.competition, holdout=HOLDOUT)]
            )
            trainer.train()
            trainer.save_model()
            metrics.write_text(json.dumps(trainer.state.log_history))
        steps = [line for line in json.loads(metrics.read_text()) if "mle/programs" in line]
        return {
            "programs": sum(step["mle/programs"] for step in steps),
            "program_s": sum(step["mle/programs"] * step["mle/duration_s/mean"] for step in steps),  # repeats, too
            "saved_s": sum(step["mle/reuse/saved_s"] for step in steps),
        }


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of finished cells."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def scores_of(sample: Evaluation) -> list[float] | None:
    """What a program scores on the rows that training saw, and on the others; `None` if it is not valid."""
    valid = sample.reward is not None and sample.score is not None and sample.score.value is not None
    return [sample.score.value, sample.score.held_out] if valid else None


class Known:
    """
    What the programs of a competition's policies score, larger is better, and figures of a policy beside that.

    Args:
        competition (`str`):
            Its id.
        lines (`list[dict]`):
            Those of its cells.
    """

    def __init__(self, competition: str, lines: Iterable[dict[str, Any]]):
        self.gain = load_competition(competition, holdout=HOLDOUT).scoring.gain
        lines = list(lines)
        before = np.concatenate([self.of(line) for line in lines if line["arm"] == BEFORE])
        self.before = before[~np.isnan(before[:, 0])]  # (programs, 2)
        best = max(np.nanmax(self.of(line)[:, 0]) for line in lines)
        self.near_best = best - 0.05 * (best - np.median(self.before[:, 0]))

    def of(self, line: dict[str, Any]) -> np.ndarray:
        """Of shape `(samples, 2)`; NaN where one is not valid."""
        return np.array(
            [[np.nan, np.nan] if score is None else [self.gain(value) for value in score] for score in line["scores"]]
        )

    def rank(self, held_out: np.ndarray) -> np.ndarray:
        """The share of the untrained policies' valid programs that each score beats, of equal ones half."""
        before = np.sort(self.before[:, 1])
        return (np.searchsorted(before, held_out, "left") + np.searchsorted(before, held_out, "right")) / (
            2 * len(before)
        )

    def best_of(self, k: int, scores: np.ndarray) -> float:
        """Expected rank, on held-out rows, of the best of k programs on the others; 0 without a valid one."""
        valid_rate, rank = best_of(k, scores[:, 0], self.rank(scores[:, 1]))
        return valid_rate * rank

    def figures(self, line: dict[str, Any]) -> dict[str, float]:
        """What a policy is worth."""
        scores = self.of(line)
        valid = scores[~np.isnan(scores[:, 0])]
        return {
            "valid": len(valid) / len(scores),
            "near_best": float((valid[:, 0] >= self.near_best).sum() / len(scores)),
            "mean_rank": float(self.rank(valid[:, 1]).mean()) if len(valid) else 0.0,
            "best_of_8": self.best_of(8, scores),
            "best_of_128": self.best_of(128, scores),
            "unique": line["unique"] / len(scores),
        }


def best_of(k: int, chosen_by: np.ndarray, reported: np.ndarray) -> tuple[float, float]:
    """
    The best of k programs, larger is better.

    Args:
        k (`int`):
            Number of programs, at most those that were sampled.
        chosen_by (`ndarray` of shape `(samples,)`):
            The scores by which the best one is chosen; NaN where a program is not valid.
        reported (`ndarray` of shape `(samples,)`):
            The scores that count then.

    Returns:
        `tuple[float, float]`: The probability that one of them is valid, and the expected score then; 0 if none is.
    """
    scores = [None if np.isnan(score) else score for score in chosen_by]
    [best] = best_of_k(scores, [min(k, len(scores))], True, reported=reported.tolist())
    return best.valid_rate, 0.0 if best.score is None else best.score
