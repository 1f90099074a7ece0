"""Tracks rollouts that are sampled but not yet trained on, while generation and updates continue."""

from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass
from itertools import groupby, takewhile
from typing import Any

import torch

from trl_mle.rewards import Evaluation
from trl_mle.trainer.gradient.inclusion import duration_quartiles, kaplan_meier_masses


# Number of rollouts whose durations are remembered. Among programs that run for L, those sampled within the last L are
# always missing from those trained on: a window that takes W to fill covers a share of 1 - L / W. So it is long.
HISTORY = 1 << 16


@dataclass
class Rollout:
    """A sampled completion, and the result of its program."""

    row: dict[str, Any]  # of the dataset
    prompt_ids: list[int]
    completion_ids: list[int]
    completion: Any  # text or messages
    sampling_logps: list[float | None] | None = None  # of its tokens, if the engine that generated them reports any
    policy_logps: list[float] | None = (
        None  # under the trained model, then; `None` if it is trained on before an update
    )
    id: int = -1  # position in the sampling order over all processes; the ledger sets it and `step`
    step: int = -1  # generation steps trained on when it was sampled
    evaluation: Evaluation | None = None  # `None` until it is known


@dataclass
class Duration:
    """The known Δt of a recently sampled rollout."""

    competition: str | None
    seconds: float = 0.0  # 0 without a program; while one runs, how long it has run so far (its Δt is *censored*)
    ended: bool = False
    trained: bool = False


class RolloutLedger:
    """
    The rollouts in flight: sampled, but not trained on. They are handed out for training in groups, in the order in
    which these finish, whenever they were sampled; none is dropped.

    Processes that tell their ledgers the same, in the same order, have the same ledger. At any time

        sampled = trained + in flight.

    Args:
        max_in_flight (`int`):
            Maximum number of rollouts in flight.
        group_size (`int`):
            Number of rollouts that are trained on together, consecutive in sampling order.
    """

    def __init__(self, max_in_flight: int, group_size: int):
        self.max_in_flight = max_in_flight
        self.group_size = group_size
        self.step = 0  # generation steps trained on so far
        self.sampled = self.trained = 0
        self.in_flight: dict[int, Rollout] = {}
        self.durations: dict[int, Duration] = {}  # of recently sampled rollouts
        self._ended_s = 0.0  # total runtime of ended programs
        self._ready: list[int] = []  # groups, in the order in which their last member finished

    def has_room(self, count: int) -> bool:
        """Whether to sample `count` more rollouts now: there is room, or fewer are in flight."""
        return len(self.in_flight) + count <= self.max_in_flight or len(self.in_flight) < count

    def add(self, rollouts: Iterable[Rollout], step: int | None = None) -> list[Rollout]:
        """Adds sampled rollouts, whole groups in their order, which were requested at this step (by default now);
        returns them with `id` and `step`."""
        added = list(rollouts)
        for rollout in added:
            rollout.id, rollout.step = self.sampled, self.step if step is None else step
            self.sampled += 1
            self.in_flight[rollout.id] = rollout
            self.durations[rollout.id] = Duration(rollout.row.get("competition"))
        # Here, because the rollouts just taken are still needed. Whole groups, so that none loses its longest member
        oldest = (self.sampled - HISTORY) // self.group_size * self.group_size
        for number in list(takewhile(lambda number: number < oldest, self.durations)):
            if number not in self.in_flight:
                del self.durations[number]
        return added

    def observe(self, rollout_id: int, running_s: float) -> None:
        """Records for how many seconds a program has run."""
        duration = self.durations[rollout_id]
        duration.seconds = max(duration.seconds, running_s)

    def finish(self, rollout_id: int, evaluation: Evaluation) -> None:
        """Records the evaluation of a rollout's program."""
        self.in_flight[rollout_id].evaluation = evaluation
        duration = self.durations[rollout_id]
        if evaluation.infrastructure_failed:  # its full duration is unknown
            self._ended_s += duration.seconds
            del self.durations[rollout_id]
        else:
            duration.seconds, duration.ended = evaluation.ready_after_s, True
            self._ended_s += 0.0 if evaluation.reused else duration.seconds
        group = rollout_id // self.group_size
        if all(self.in_flight[member].evaluation is not None for member in self._members(group)):
            self._ready.append(group)

    @property
    def ready(self) -> int:
        """Number of rollouts that are ready to be trained on."""
        return len(self._ready) * self.group_size

    @property
    def unfinished(self) -> list[Rollout]:
        """Rollouts whose programs have not ended, in sampling order."""
        return [rollout for rollout in self.in_flight.values() if rollout.evaluation is None]

    @property
    def ran_s(self) -> float:
        """Total seconds that programs have run, ended or not."""
        return self._ended_s + sum(self.durations[rollout.id].seconds for rollout in self.unfinished)

    def take(self, count: int) -> list[Rollout]:
        """Hands out `count` rollouts for a generation step: those that finished first, in sampling order; none if
        fewer have finished."""
        if self.ready < count:
            return []
        first, self._ready = self._ready[: count // self.group_size], self._ready[count // self.group_size :]
        taken = [self.in_flight.pop(member) for group in sorted(first) for member in self._members(group)]
        self._mark_trained(taken)
        self.trained += len(taken)
        self.step += 1
        return taken

    def check(self, executing: Iterable[int]) -> None:
        """Raises `RuntimeError` if a rollout was lost, given the ids of those whose programs are queued or running on
        any process."""
        if self.sampled != self.trained + len(self.in_flight):
            counts = f"{self.sampled} sampled, {self.trained} trained, {len(self.in_flight)} in flight"
            raise RuntimeError(f"the ledger of rollouts does not add up: {counts}")
        unfinished = [rollout.id for rollout in self.unfinished]
        if sorted(executing) != unfinished:
            raise RuntimeError(f"programs of the rollouts {unfinished} should run, those of {sorted(executing)} do")

    def metrics(self, taken: list[Rollout]) -> dict[str, float]:
        """Metrics of a generation step, by quartile (q1 is the fastest) of the Δt of recently sampled rollouts;
        docs/metrics.md describes them. `sampled_share` and `trained_share` differ if slow programs are missing from
        those trained on. A program that has run for longer than any ended one is in q4."""
        staleness = torch.tensor([float(self.step - 1 - rollout.step) for rollout in taken])
        metrics = {
            "in_flight": float(len(self.in_flight)),
            "staleness/mean": staleness.mean().item(),
            "staleness/max": staleness.max().item(),
        }
        seconds, ended, trained = self.known_durations()
        if not ended.any():
            return metrics
        edges = duration_quartiles(seconds, ended)
        quartile = torch.bucketize(seconds, edges)
        masses = kaplan_meier_masses(seconds, ended)
        taken_s = [rollout.evaluation.ready_after_s if rollout.evaluation else 0.0 for rollout in taken]
        taken_quartile = torch.bucketize(seconds.new_tensor(taken_s), edges)
        shares = [(masses[quartile == i].sum() / len(masses)).item() for i in range(4)]
        shares[3] = 1 - sum(shares[:3])
        for i, name in enumerate(("q1", "q2", "q3", "q4")):
            metrics[f"sampled_share/{name}"] = shares[i]
            if trained.any():
                metrics[f"trained_share/{name}"] = (quartile[trained] == i).double().mean().item()
            of_quartile = staleness[taken_quartile == i]
            if len(of_quartile):
                metrics[f"staleness/{name}/p50"] = of_quartile.quantile(0.5).item()
                metrics[f"staleness/{name}/p90"] = of_quartile.quantile(0.9).item()
        return metrics

    def known_durations(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of recently sampled rollouts: seconds, whether the program has ended, whether the rollout was trained on."""
        return _columns(self.durations.values())

    @property
    def competitions(self) -> int:
        """The number of different competitions of recently sampled rollouts."""
        return len({duration.competition for duration in self.durations.values()})

    def known_units(self, competition: str | None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The same for whole units of a competition, or of all with `None`, with the seconds of the longest member so far: a unit is trained
        on when its longest program has ended. Members hit by failures of our infrastructure do not count."""
        units = []
        for _, entries in groupby(self.durations.items(), key=lambda entry: entry[0] // self.group_size):
            members = [
                duration
                for _, duration in entries
                if competition is None or duration.competition in (None, competition)
            ]
            if members:
                longest = max(duration.seconds for duration in members)
                ended = all(duration.ended for duration in members)
                units.append(Duration(competition, longest, ended, members[0].trained))
        return _columns(units)

    def longest_of_unit(self, durations: torch.Tensor) -> torch.Tensor:
        """The longest Δt in the unit of each rollout handed out; NaN where its own is unknown. Units are whole, in
        sampling order."""
        longest = durations.nan_to_num(nan=0.0).view(-1, self.group_size).amax(dim=1)
        return longest.repeat_interleave(self.group_size).masked_fill(durations.isnan(), torch.nan)

    def state_dict(self) -> dict[str, Any]:
        return {
            "group_size": self.group_size,
            "step": self.step,
            "sampled": self.sampled,
            "trained": self.trained,
            "in_flight": [asdict(rollout) for rollout in self.in_flight.values()],
            "ready": self._ready,
            "durations": [[number, *astuple(duration)] for number, duration in self.durations.items()],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a [`state_dict`]. Programs of unfinished rollouts must be executed again, from the start."""
        if state["group_size"] != self.group_size:
            raise ValueError(
                f"the checkpoint's rollouts are trained on {state['group_size']} at a time, not {self.group_size}: resume with its num_generations"
            )
        self.step, self.sampled, self.trained = state["step"], state["sampled"], state["trained"]
        self._ready = list(state["ready"])
        self.in_flight = {entry["id"]: _rollout(entry) for entry in state["in_flight"]}
        self.durations = {number: Duration(*values) for number, *values in state["durations"]}
        for rollout in self.unfinished:
            self.durations[rollout.id].seconds = 0.0
        self.check(rollout.id for rollout in self.unfinished)

    def _members(self, group: int) -> range:
        return range(group * self.group_size, (group + 1) * self.group_size)

    def _mark_trained(self, rollouts: Iterable[Rollout]) -> None:
        for rollout in rollouts:
            if rollout.id in self.durations:
                self.durations[rollout.id].trained = True


def _columns(known: Iterable[Duration]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = [(duration.seconds, duration.ended, duration.trained) for duration in known]
    seconds, ended, trained = torch.tensor(rows, dtype=torch.float64).view(-1, 3).T.contiguous()
    return seconds, ended.bool(), trained.bool()


def _rollout(entry: dict[str, Any]) -> Rollout:
    if entry["evaluation"] is not None:
        entry = entry | {"evaluation": Evaluation.from_dict(entry["evaluation"])}
    return Rollout(**entry)
