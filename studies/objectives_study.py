"""Compares the objectives on executed programs of the starter's grammar; see objectives.py."""

import gzip
import hashlib
import json
import math
import os
import random
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from objectives_advantages import check, entropic_advantages, reward_advantages, two_part_advantages
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from shared import bootstrap

from trl_mle.competitions import Competition, load_competition
from trl_mle.execution import LocalExecutor, Outcome
from trl_mle.prompts import extract_code
from trl_mle.starter.grammar import TASKS, Sketcher
from trl_mle.trainer.gradient.duration import duration_weights


COMPETITIONS = ["digits", "diabetes", *(name for name in TASKS if name.startswith("mirror:"))]

BATCH = 64  # programs per step
PLACES = 16  # places where a mistake may happen, independently
PLACES_BEFORE_FIT = 10  # imports, tables, features, the model's settings
VALID_AT_FIRST = 0.26
FAIL_REWARD, FLOOR, VALID_PROGRESS = -10.0, -9.0, -7.0
STEPS = (40, 120)
COLUMNS = ("valid", "mean", "bo8", "bo128", "P > static 128", "P > static 1,280")


# Programs, executed once


def sample_programs(competition: str, count: int) -> list[dict[str, Any]]:
    """The first programs without mistakes that the grammar draws; repeats count as drawn more often."""
    sketcher = Sketcher(competition, random.Random(competition), slip_rate=0)
    programs: dict[str, dict[str, Any]] = {}
    for _ in range(count):
        source = extract_code(sketcher.sketch({"fill": 0, "verb": "fit"}))
        assert source is not None
        sha256 = hashlib.sha256(source.encode()).hexdigest()
        program = {
            "competition": competition,
            "sha256": sha256,
            "source": source,
            "choices": factors(sketcher.choices),
        }
        programs.setdefault(sha256, program | {"drawn": 0})["drawn"] += 1
    return list(programs.values())


def factors(choices: dict[str, Any]) -> list[str]:
    """The parameters of a log-linear policy: each part of the features, and each value of a setting or other choice."""
    found = []
    for name, choice in choices.items():
        if isinstance(choice, dict):
            found += [f"{name}: {keyword} = {value}" for keyword, value in choice.items()]
        elif isinstance(choice, list):
            found += [f"{name}: {item}" for item in choice]
        elif name not in ("verb", "fill"):  # these change no score
            found.append(f"{name}: {choice}")
    return found


def read_store(folder: Path) -> list[dict[str, Any]]:
    """Programs executed so far; a line truncated by a kill does not count."""
    path = folder / "programs.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def execute(folder: Path, count: int) -> None:
    """Executes programs that are not in the store yet; competitions take turns, so that a partial store can be used."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "programs.jsonl"
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)  # removes a line truncated by a kill
    known = {(row["competition"], row["sha256"]) for row in read_store(folder)}
    turns = zip_longest(*(sample_programs(name, count) for name in COMPETITIONS))
    programs = [program for turn in turns for program in turn if program is not None]
    missing = [program for program in programs if (program["competition"], program["sha256"]) not in known]
    competitions = {name: load_competition(name) for name in COMPETITIONS}
    print(f"{len(known)} executed, {len(missing)} to go", flush=True)
    with (
        LocalExecutor(max_parallel=1, timeout_s=60, memory_mb=2048) as executor,
        path.open("a") as store,
    ):
        for number, program in enumerate(missing, 1):
            competition = competitions[program["competition"]]
            [result] = executor.run_many([(program["source"], competition)])
            if result.outcome is Outcome.INFRASTRUCTURE:
                print(f"{program['competition']}: {result.detail}", flush=True)
                continue  # the next call tries again
            graded = result.outcome is Outcome.OK and result.submission is not None
            if graded:
                kept = submission_path(folder, competition, program)
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(gzip.compress(result.submission))
            score = competition.grade(result.submission) if graded else None
            row = {
                name: value for name, value in program.items() if name != "source"
            } | {  # the grammar can write it again
                "score": score and asdict(score),
                "duration_s": result.duration_s,
                "outcome": result.outcome,
                "detail": result.detail,
            }
            store.write(json.dumps(row) + "\n")
            store.flush()
            if number % 50 == 0:
                print(f"{number} of {len(missing)}", flush=True)


def submission_path(folder: Path, competition: Competition, program: dict[str, Any]) -> Path:
    return folder / "submissions" / competition.slug / f"{program['sha256']}.csv.gz"


def regrade(folder: Path) -> None:
    """Grades the kept submissions again, as the competitions are graded now."""
    competitions = {name: load_competition(name) for name in COMPETITIONS}
    rows = read_store(folder)
    for row in rows:
        competition = competitions[row["competition"]]
        if row["score"] is not None:
            content = gzip.decompress(submission_path(folder, competition, row).read_bytes())
            row["score"] = asdict(competition.grade(content))
    new = folder / "programs.jsonl.new"
    new.write_text("".join(json.dumps(row) + "\n" for row in rows))
    new.replace(folder / "programs.jsonl")


# Policies over the executed programs


class Programs:
    """
    The executed programs of a competition, as a policy sees them.

    Args:
        competition (`str`):
            Id of the competition.
        rows (`list[dict]`):
            Its executed programs, see [`read_store`].
    """

    def __init__(self, competition: str, rows: list[dict[str, Any]]):
        scoring = load_competition(competition).scoring
        valid = [row["score"] is not None and row["score"]["valid"] for row in rows]
        gains = [scoring.gain(row["score"]["value"]) if ok else math.nan for row, ok in zip(rows, valid, strict=True)]
        self.valid, self.gains = np.array(valid), np.array(gains)
        self.seconds = np.array([row["duration_s"] for row in rows])
        self.features = one_hot([row["choices"] for row in rows])  # (programs, features)
        drawn = np.array([row["drawn"] for row in rows], dtype=float)
        self.prior = drawn / drawn.sum()
        self.order = np.argsort(np.where(self.valid, self.gains, -np.inf), kind="stable")
        place = (VALID_AT_FIRST / self.prior[self.valid].sum()) ** (1 / PLACES)
        self.place_logit = math.log(place / (1 - place))
        self.static = self.prior * place**PLACES  # probability of each program, without a mistake
        self.best = self.gains[self.valid].max()

    def best_of(self, probabilities: np.ndarray, k: int) -> np.ndarray:
        """Expected best of k draws, given that one of them is valid, for each row of probabilities of right programs."""
        valid = self.order[-self.valid.sum() :]
        of_valid = probabilities[..., valid]
        failing = 1 - of_valid.sum(axis=-1, keepdims=True)
        at_most = (failing + np.concatenate([np.zeros_like(failing), of_valid.cumsum(axis=-1)], axis=-1)).clip(
            0, 1
        ) ** k
        return np.diff(at_most) @ self.gains[valid] / (1 - at_most[..., 0])

    def figures(self, probabilities: np.ndarray) -> dict[str, list[float]]:
        """The columns of the table, for each row of probabilities."""
        static_mean, static_128, static_1280 = (float(self.best_of(self.static, k)) for k in (1, 128, 1280))
        found = {
            "valid": probabilities[:, self.valid].sum(axis=1),
            "mean": (self.best_of(probabilities, 1) - static_mean) / (self.best - static_mean),
            "bo8": (self.best_of(probabilities, 8) - static_mean) / (self.best - static_mean),
            "bo128": (self.best_of(probabilities, 128) - static_128) / (self.best - static_128),
        }
        for name, threshold in (("P > static 128", static_128), ("P > static 1,280", static_1280)):
            better = self.valid & (np.nan_to_num(self.gains, nan=-np.inf) > threshold)
            found[name] = 1 - (1 - probabilities[:, better].sum(axis=1)).clip(0, 1) ** 128
        return {name: column.tolist() for name, column in found.items()}


def one_hot(rows: list[list[str]]) -> np.ndarray:
    names = {name: column for column, name in enumerate(sorted({name for row in rows for name in row}))}
    matrix = np.zeros((len(rows), len(names)))
    for row, of_row in zip(matrix, rows, strict=True):
        row[[names[name] for name in of_row]] = 1
    return matrix


@dataclass(frozen=True)
class Arm:
    """An objective; `scale` is that of the quality part."""

    objective: str
    group_size: int = 64
    k: int | None = None
    scale: float = 0.0
    entropy: float = 0.0

    @property
    def name(self) -> str:
        kind = f"best of {self.k}" if self.k else self.objective
        scale = f", c = {self.scale:g}" if self.scale else ""
        return f"{BATCH // self.group_size} x {self.group_size}: {kind}{scale}" + (
            f", entropy {self.entropy:g}" if self.entropy else ""
        )

    def advantages(self, programs: Programs, drawn: np.ndarray, wrong: np.ndarray) -> np.ndarray:
        """
        Weighted advantages.

        Args:
            programs ([`Programs`]):
                The executed programs.
            drawn (`ndarray` of shape `(seeds, 64)`):
                Indices of the drawn programs.
            wrong (`ndarray` of shape `(seeds, 64, 16)`):
                The places with a mistake.

        Returns:
            `ndarray` of shape `(seeds, 64)`: The factor of each log-probability's gradient.
        """
        valid = programs.valid[drawn] & ~wrong.any(axis=2)
        quality = torch.from_numpy(np.where(valid, programs.gains[drawn], np.nan)).view(-1, self.group_size)
        rewards = quality.clamp(min=FLOOR).nan_to_num(nan=FAIL_REWARD)
        if self.objective.startswith("reward"):
            values = reward_advantages(rewards)
        elif self.objective.startswith("entropic"):
            values = entropic_advantages(rewards, math.log(int(self.objective.rpartition(" ")[2])))
        else:
            progress = torch.where(quality.isnan(), FAIL_REWARD, VALID_PROGRESS)
            values = two_part_advantages(progress, quality, self.k, self.scale)
        values = values.view(drawn.shape)
        if "linear" in self.objective:
            # A mistake before the model is fitted ends a program as early as the fastest one
            early = wrong[:, :, :PLACES_BEFORE_FIT].any(axis=2)
            seconds = torch.from_numpy(np.where(early, programs.seconds.min(), programs.seconds[drawn]))
            values = values * torch.stack([duration_weights(of_seed, "linear", 0.5, 2.0) for of_seed in seconds])
        return values.numpy()


def train(programs: Programs, arm: Arm, num_seeds: int, learning_rate: float) -> dict[str, dict[str, list[float]]]:
    """The figures of each seed, by the number of steps."""
    rng = np.random.default_rng(num_seeds)
    choices, places = (
        np.zeros((num_seeds, programs.features.shape[1])),
        np.full((num_seeds, PLACES), programs.place_logit),
    )
    optimizer = Adam(learning_rate, choices, places)
    found = {}
    for step in range(1, max(STEPS) + 1):
        policy = softmax(np.log(programs.prior) + choices @ programs.features.T)  # (seeds, programs)
        right = 1 / (1 + np.exp(-places))  # (seeds, places)
        cumulative = policy.cumsum(axis=1)
        uniform = rng.random((num_seeds, BATCH)) * cumulative[:, -1:]
        drawn = np.stack([np.searchsorted(*of_seed) for of_seed in zip(cumulative, uniform, strict=True)])
        wrong = rng.random((num_seeds, BATCH, PLACES)) > right[:, None]
        pushes = arm.advantages(programs, drawn, wrong)[:, :, None] / BATCH
        mean = policy @ programs.features
        of_choices = (pushes * (programs.features[drawn] - mean[:, None])).sum(axis=1)
        of_places = (pushes * (~wrong - right[:, None])).sum(axis=1)
        if arm.entropy:
            surprise = -np.log(policy.clip(1e-300))
            surprise -= (policy * surprise).sum(axis=1, keepdims=True)
            of_choices += arm.entropy * (policy * surprise) @ programs.features
            of_places -= arm.entropy * places * right * (1 - right)
        optimizer.step(of_choices, of_places)
        if step in STEPS:
            policy = softmax(np.log(programs.prior) + choices @ programs.features.T)
            right = 1 / (1 + np.exp(-places))
            found[str(step)] = programs.figures(policy * right.prod(axis=1, keepdims=True))
    return found


def softmax(logits: np.ndarray) -> np.ndarray:
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


class Adam:
    """Gradient ascent as `torch.optim.Adam` does it, in place."""

    def __init__(self, learning_rate: float, *parameters: np.ndarray):
        self.learning_rate = learning_rate
        self.parameters = parameters
        self.means = [np.zeros_like(parameter) for parameter in parameters]
        self.squares = [np.zeros_like(parameter) for parameter in parameters]
        self.steps = 0

    def step(self, *gradients: np.ndarray) -> None:
        self.steps += 1
        for parameter, mean, square, gradient in zip(
            self.parameters, self.means, self.squares, gradients, strict=True
        ):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            unbiased = np.sqrt(square / (1 - 0.999**self.steps)) + 1e-8
            parameter += self.learning_rate * mean / (1 - 0.9**self.steps) / unbiased


def arms() -> list[Arm]:
    found = []
    for entropy in (0.0, 0.05):
        for size in (64, 16):
            found += [Arm("reward", size, entropy=entropy), Arm("reward, linear in [0.5, 2]", size, entropy=entropy)]
            found += [Arm(f"entropic, KL = ln {times}", size, entropy=entropy) for times in (2, 8)]
            found += [Arm("mean_rank", size, None, scale, entropy) for scale in (3, 10)]
            found += [
                Arm("max_at_k", size, k, scale, entropy) for k in (4, 8, 16, 32) if k <= size for scale in (3, 10)
            ]
    return found


def study_main(
    folder: Path, num_seeds: int, learning_rates: list[float], names: list[str] | None, console: Console
) -> None:
    torch.set_num_threads(1)
    check()
    rows = read_store(folder)
    programs = {name: Programs(name, [row for row in rows if row["competition"] == name]) for name in COMPETITIONS}
    record = folder / "study.json"
    results = json.loads(record.read_text()) if record.exists() else {}
    for learning_rate in learning_rates:
        setting = f"{len(rows)} programs, {num_seeds} seeds, lr {learning_rate:g}"
        found = results.setdefault(setting, {})
        found["static"] = {
            name: dict.fromkeys(map(str, STEPS), item.figures(np.tile(item.static, (num_seeds, 1))))
            for name, item in programs.items()
        }
        for arm in arms():
            if arm.name not in found and (names is None or arm.name in names):
                found[arm.name] = {name: train(item, arm, num_seeds, learning_rate) for name, item in programs.items()}
                record.write_text(json.dumps(results) + "\n")
        for steps in map(str, STEPS):
            console.print(table(f"after {steps} steps; {setting}; mean [95% interval]", found, steps))


def table(title: str, found: dict[str, dict], steps: str) -> Table:
    lines = Table(title=title, box=SIMPLE_HEAD)
    lines.add_column("objective")
    for heading in COLUMNS:
        lines.add_column(heading, justify="right")
    for name, by_competition in found.items():
        columns = [
            bootstrap(np.array([figures[steps][key] for figures in by_competition.values()])) for key in COLUMNS
        ]
        lines.add_row(name, *("{:.2f} [{:.2f}, {:.2f}]".format(*column) for column in columns))
    return lines
