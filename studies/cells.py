"""Cells of an experiment: a policy trained with one arm's options from one seed, and programs sampled from it."""

import datetime
import hashlib
import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import read
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from trl_mle.competitions import Competition, load_competition
from trl_mle.evaluation.best_of_k import best_of_k
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.policies import TransformersPolicy
from trl_mle.evaluation.sample_log import SampleLog
from trl_mle.evaluation.sampling import sample_programs
from trl_mle.execution import Executor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import Evaluation, MLEReward
from trl_mle.rewards.execution_log import end_last_line
from trl_mle.solutions.store import ResultStore
from trl_mle.starter.build import StarterConfig, build_starter, sketch_corpus
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer
from trl_mle.trainer.gradient import advantages


BEFORE = "before RL"  # the arm that is not trained
HOLDOUT = 0.5
UNRECORDED = ("use_cpu", "begin_program")  # the machine's; what cells did before it was an option
QUALITY_SCALE = advantages.QUALITY_SCALE


@dataclass(frozen=True)
class Cell:
    """
    One policy.

    Args:
        competitions (`tuple[str, ...]`):
            Ids of the competitions that it is trained on.
        arm (`str`):
            Name of the arm; [`BEFORE`] is the starter policy itself.
        seed (`int`):
            Seed of training and of sampling.
    """

    competitions: tuple[str, ...]
    arm: str
    seed: int

    @property
    def slugs(self) -> str:
        """Of its competitions; where these are too many for the name of a folder, their number and a hash."""
        slugs = "+".join(load_competition(competition).slug for competition in self.competitions)
        if len(slugs) > 200:
            return f"{len(self.competitions)}-competitions-{hashlib.sha256(slugs.encode()).hexdigest()[:8]}"
        return slugs

    @property
    def folder(self) -> str:
        return f"{self.slugs}-{self.seed}/{self.arm.replace(', ', '-').replace(' = ', '').replace(' ', '-')}"


class Experiment:
    """
    Runs each cell once: a finished one has a line in `cells.jsonl` for each of its competitions, and an interrupted one
    continues where it was; its training starts again, or from its last checkpoint if its options save any. Equal programs
    run once for all cells.

    Args:
        output (`Path`):
            Folder of the starters, the policies, and the lines.
        executor ([`~trl_mle.execution.Executor`]):
            Runs the programs.
        training (`dict`):
            Fields of `MLEGRPOConfig` that all arms share.
        num_programs (`int`, *optional*, defaults to `5760`):
            Programs that a starter learns from, for each competition.
    """

    def __init__(self, output: Path, executor: Executor, training: Mapping[str, Any], num_programs: int = 5760):
        self.output = output
        self.executor = executor
        self.training = training
        self.num_programs = num_programs
        output.mkdir(parents=True, exist_ok=True)
        self.lines = output / "cells.jsonl"
        self.store = ResultStore(output / "results.sqlite")

    def run(self, cell: Cell, options: Mapping[str, Any] | None, num_samples: int) -> list[dict[str, Any]]:
        """
        Trains a policy, samples `num_samples` programs for each of its competitions, and returns their lines; `options`
        are those of its arm, or `None` for no training.
        """
        corpus = corpus_of(cell.competitions)
        training = {} if options is None else {**self.training, **options}
        setting = {
            "training": {name: value for name, value in training.items() if name not in UNRECORDED},
            "num_samples": num_samples,
            "corpus": corpus,
        }
        known = {
            line["competition"]: line
            for line in read(self.lines)
            if line["competition"] in cell.competitions and (line["arm"], line["seed"]) == (cell.arm, cell.seed)
        }
        if any(line["setting"] != setting for line in known.values()):
            raise SystemExit(f"error: {self.lines} has this cell with other settings: use another --output")
        if len(known) == len(cell.competitions):
            return [known[competition] for competition in cell.competitions]
        competitions = [load_competition(name, holdout=HOLDOUT) for name in cell.competitions]
        folder = self.output / cell.folder
        start = self.output / "starters" / f"{cell.slugs}-{corpus}"
        if not (start / "README.md").is_file():  # written last
            names = list(cell.competitions)
            build_starter(StarterConfig(output_dir=str(start), competitions=names, num_programs=self.num_programs))
        folder.mkdir(parents=True, exist_ok=True)
        reward = MLEReward(
            competitions,
            self.executor,
            AstInstrumenter(),
            show_progress=False,
            log_dir=folder,
            results=self.store,
        )
        policy, cost = start, {}
        if options is not None:
            policy, cost = folder, self._train(options, start, folder, reward, cell)
        model = TransformersPolicy.from_pretrained(str(policy))
        for competition in competitions:
            if competition.id not in known:
                line = self._sample(model, policy.name, competition, reward, folder, cell, num_samples)
                known[competition.id] = line = {
                    "competition": competition.id,
                    "arm": cell.arm,
                    "seed": cell.seed,
                    "setting": setting,
                    "cost": cost,
                    **line,
                    "finished": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
                    "machine": "cuda" if torch.cuda.is_available() else platform.machine(),
                }
                end_last_line(self.lines)
                with self.lines.open("a") as lines:
                    lines.write(json.dumps(line) + "\n")
        return [known[competition] for competition in cell.competitions]

    def _sample(
        self,
        model: TransformersPolicy,
        name: str,
        competition: Competition,
        reward: MLEReward,
        folder: Path,
        cell: Cell,
        num_samples: int,
    ) -> dict[str, Any]:
        """Samples programs of a policy, and returns their scores."""
        several = f"-{competition.slug}" if len(cell.competitions) > 1 else ""
        log = SampleLog(folder / f"samples{several}.jsonl", {"policy": name, "seed": cell.seed})
        harness = Harness(
            policy=model,
            competition=competition,
            reward=reward,
            log=log,
            max_new_tokens=self.training["max_completion_length"],
            max_prompt_tokens=self.training["max_prompt_length"],
            begin_program=False,
            limits=self.executor.limits,
            seed=1_000_000 + cell.seed,  # never used in training
        )
        samples = sample_programs(harness, num_samples)
        return {
            "scores": [scores_of(sample) for sample in samples],
            "seconds": [None if sample.duration_s is None else round(sample.duration_s, 2) for sample in samples],
            "unique": len({sample.source for sample in samples}),
        }

    def _train(
        self, options: Mapping[str, Any], start: Path, folder: Path, reward: MLEReward, cell: Cell
    ) -> dict[str, float]:
        """Trains the policy in `start`, and saves it with the log of its metrics; returns the cost."""
        metrics = folder / "metrics.json"
        if not metrics.is_file():
            options = dict(self.training) | dict(options)
            advantages.QUALITY_SCALE = options.pop("scale", QUALITY_SCALE)
            budget_s = options.pop("budget_s", math.inf)
            args = MLEGRPOConfig(str(folder), seed=cell.seed, **options)
            trainer = MLEGRPOTrainer(str(start), reward, args, competitions=reward.competitions)
            trainer.add_callback(StopAtBudget(budget_s))
            trainer.train(resume_from_checkpoint=get_last_checkpoint(str(folder)))
            trainer.save_model()
            whole = folder / "metrics.json.new"
            whole.write_text(json.dumps(trainer.state.log_history))
            whole.replace(metrics)
        steps = [line for line in json.loads(metrics.read_text()) if "mle/duration_s/mean" in line]
        return {
            "programs": sum(step["mle/programs"] for step in steps),
            "program_s": sum(map(program_s, steps)),
            # The part of program_s that repeats did not run
            "saved_s": sum(step["mle/reuse/saved_s"] for step in steps),
        }


class StopAtBudget(TrainerCallback):
    """Ends a run after the step in which its programs, reused ones included, have used up the seconds."""

    def __init__(self, budget_s: float):
        self.left_s = budget_s

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        self.left_s -= program_s(logs or {})
        control.should_training_stop = control.should_training_stop or self.left_s <= 0


def program_s(metrics: Mapping[str, float]) -> float:
    """Seconds that the programs of a step took."""
    return metrics.get("mle/programs", 0) * metrics.get("mle/duration_s/mean", 0.0)


def scores_of(sample: Evaluation) -> list[float] | None:
    """A program's scores on the rows that training saw and on the others; `None` if it is not valid."""
    valid = sample.reward is not None and sample.score is not None and sample.score.value is not None
    return [sample.score.value, sample.score.held_out] if valid else None


def corpus_of(competitions: Sequence[str]) -> str:
    """Identifies the grammar of a starter policy, by the hash of a few programs."""
    programs = sketch_corpus(StarterConfig(competitions=list(competitions), num_programs=20))["completion"]
    return hashlib.sha256(json.dumps(list(programs)).encode()).hexdigest()[:8]


def gains(line: dict[str, Any]) -> np.ndarray:
    """The scores of a cell's samples, larger is better, of shape `(samples, 2)`; NaN for invalid ones."""
    gain = load_competition(line["competition"], holdout=HOLDOUT).scoring.gain
    return np.array([[np.nan] * 2 if score is None else [gain(value) for value in score] for score in line["scores"]])


class Known:
    """
    The scores of all programs of a competition, larger is better, with which the figures of a policy are computed.

    Args:
        lines (`list[dict]`):
            Lines of the competition's cells.
    """

    def __init__(self, lines: Iterable[dict[str, Any]]):
        lines = list(lines)
        before = np.concatenate([gains(line) for line in lines if line["arm"] == BEFORE])
        self.before = before[~np.isnan(before[:, 0])]  # (programs, 2)
        best = np.nanmax(np.concatenate([gains(line)[:, 0] for line in lines]))
        self.near_best = best - 0.05 * (best - np.median(self.before[:, 0]))

    def rank(self, held_out: np.ndarray) -> np.ndarray:
        """The share of the untrained policies' valid programs that each score beats; ties count half."""
        before = np.sort(self.before[:, 1])
        return (np.searchsorted(before, held_out, "left") + np.searchsorted(before, held_out, "right")) / (
            2 * len(before)
        )

    def figures(self, line: dict[str, Any]) -> dict[str, float]:
        """The figures of a policy. Scores are ranks on held-out rows; the best is chosen on the others."""
        scores = gains(line)
        valid = scores[~np.isnan(scores[:, 0])]
        return {
            "valid": len(valid) / len(scores),
            "near_best": float((valid[:, 0] >= self.near_best).sum() / len(scores)),
            "mean_rank": float(self.rank(valid[:, 1]).mean()) if len(valid) else 0.0,
            "best_of_8": best_of(8, scores[:, 0], self.rank(scores[:, 1]), worst=0.0),
            "best_of_128": best_of(128, scores[:, 0], self.rank(scores[:, 1]), worst=0.0),
            "unique": line["unique"] / len(scores),
        }


def best_of(k: int, chosen_by: np.ndarray, reported: np.ndarray, worst: float) -> float:
    """
    The expected score of the best of k programs, larger is better.

    Args:
        k (`int`):
            Number of programs, at most those that were sampled.
        chosen_by (`ndarray` of shape `(samples,)`):
            The scores by which the best one is chosen; NaN where a program is not valid.
        reported (`ndarray` of shape `(samples,)`):
            The scores that count for the chosen one.
        worst (`float`):
            The score that counts if none of the k is valid.

    Returns:
        `float`: The expected score.
    """
    scores = [None if np.isnan(score) else score for score in chosen_by]
    [best] = best_of_k(scores, [min(k, len(scores))], True, reported=reported.tolist(), resamples=0)
    return worst if best.score is None else best.valid_rate * best.score + (1 - best.valid_rate) * worst
