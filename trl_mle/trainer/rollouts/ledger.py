"""Tracks rollouts that are sampled but not yet trained on, while generation and updates continue."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from trl_mle.rewards import Evaluation


@dataclass
class Rollout:
    """A sampled completion, and the result of its program."""

    row: dict[str, Any]  # of the dataset
    prompt_ids: list[int]
    completion_ids: list[int]
    completion: Any  # text or messages
    sampling_logps: list[float | None] | None = None  # of its tokens, if the engine that generated them reports any
    policy_logps: list[float | None] | None = None  # of the model; `None` if training precedes any update
    id: int = -1  # position in the sampling order over all processes; the ledger sets it and `step`
    step: int = -1  # generation steps trained on when it was sampled
    evaluation: Evaluation | None = None  # `None` until it is known


class RolloutLedger:
    """The rollouts in flight: sampled, but not trained on. They are handed out for training in groups, in the order in
    which these finish, whenever they were sampled; none is dropped: at any time sampled = trained + in flight."""

    def __init__(self, max_in_flight: int, group_size: int):
        self.max_in_flight = max_in_flight
        self.group_size = group_size  # rollouts that are trained on together, consecutive in sampling order
        self.step = 0  # generation steps trained on so far
        self.sampled = 0
        self.in_flight: dict[int, Rollout] = {}
        self._ready: list[int] = []  # groups, in the order in which their last member finished

    def has_room(self, count: int) -> bool:
        """Whether to sample `count` more rollouts now: there is room, or fewer are in flight."""
        return len(self.in_flight) + count <= self.max_in_flight or len(self.in_flight) < count

    def add(self, rollouts: Iterable[Rollout], step: int) -> list[Rollout]:
        """Adds whole groups of rollouts, which were requested at this step."""
        added = list(rollouts)
        for rollout in added:
            rollout.id, rollout.step = self.sampled, step
            self.sampled += 1
            self.in_flight[rollout.id] = rollout
        return added

    def finish(self, rollout_id: int, evaluation: Evaluation) -> None:
        self.in_flight[rollout_id].evaluation = evaluation
        group = rollout_id // self.group_size
        if all(self.in_flight[member].evaluation is not None for member in self._members(group)):
            self._ready.append(group)

    @property
    def ready(self) -> int:
        return len(self._ready) * self.group_size

    @property
    def unfinished(self) -> list[Rollout]:
        """Rollouts whose programs have not ended, in sampling order."""
        return [rollout for rollout in self.in_flight.values() if rollout.evaluation is None]

    def take(self, count: int) -> list[Rollout]:
        """Hands out `count` rollouts for a generation step: those that finished first, in sampling order; none if
        fewer have finished."""
        if self.ready < count:
            return []
        first, self._ready = self._ready[: count // self.group_size], self._ready[count // self.group_size :]
        taken = [self.in_flight.pop(member) for group in sorted(first) for member in self._members(group)]
        self.step += 1
        return taken

    def metrics(self, taken: list[Rollout]) -> dict[str, float]:
        """How many rollouts are in flight, and the ages in generation steps of those that were taken."""
        ages = [float(self.step - 1 - rollout.step) for rollout in taken]
        return {
            "in_flight": float(len(self.in_flight)),
            "staleness/mean": sum(ages) / len(ages),
            "staleness/max": max(ages),
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "group_size": self.group_size,
            "step": self.step,
            "sampled": self.sampled,
            "in_flight": [asdict(rollout) for rollout in self.in_flight.values()],
            "ready": self._ready,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a [`state_dict`]. Programs of unfinished rollouts must be executed again, from the start."""
        if state["group_size"] != self.group_size:
            raise ValueError(f"the checkpoint has num_generations={state['group_size']}, not {self.group_size}")
        self.step, self.sampled = state["step"], state["sampled"]
        self._ready = list(state["ready"])
        self.in_flight = {entry["id"]: Rollout(**entry) for entry in state["in_flight"]}
        for rollout in self.in_flight.values():
            if rollout.evaluation is not None:
                rollout.evaluation = Evaluation.from_dict(rollout.evaluation)  # type: ignore[arg-type]

    def _members(self, group: int) -> range:
        return range(group * self.group_size, (group + 1) * self.group_size)
