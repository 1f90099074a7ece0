"""Goes back to earlier weights when programs stop being valid, and notices when a run finds nothing new."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from accelerate.logging import get_logger
from safetensors.torch import load_file, save_file
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from trl_mle.competitions.task_set import FEW
from trl_mle.trainer.batch import Completion


logger = get_logger(__name__)  # for the main process

STEPS = range(3, 25)  # of the run's last ones that are looked at: as few as lead to expect enough valid programs
ENOUGH = 16  # fewer may be missing by chance
LOST = 0.25  # of those expected
STALE_STEPS = 8  # without a score that the run had not seen
WEIGHTS_FILE = "kept_weights"  # in a checkpoint; vLLM would take any `*.safetensors` for the model's

Weights = dict[str, torch.Tensor]
Counts = dict[str, list[int]]  # valid programs, and all, of each competition


@dataclass
class _State:
    steps: list[Counts] = field(default_factory=list)  # but those after which weights were put back
    age: int = 0  # steps since weights were put back
    kept_step: int = 0  # after which the kept weights were those of the model
    rescues: int = 0
    scores: dict[str, list[float]] = field(default_factory=dict)  # that were seen, of each competition
    stale: int = 0  # steps since the last new one


def _total(steps: Sequence[Counts]) -> Counts:
    total: Counts = {}
    for name, counts in chain.from_iterable(step.items() for step in steps):
        total[name] = [before + more for before, more in zip(total.get(name, (0, 0)), counts, strict=True)]
    return total


def _expected(recent: Counts, everything: Counts) -> float:
    """How many of the last programs are valid if each competition has the share of valid ones that it had before.
    Where there are many competitions, one that is new has the share of all."""
    expected = 0.0
    of_all = [sum(counts[i] for counts in everything.values()) for i in (0, 1)] if len(everything) > FEW else [0, 0]
    for name, (_, count) in recent.items():
        before = [everything[name][i] - recent[name][i] for i in (0, 1)]
        valid, known = before if before[1] else of_all
        expected += count * valid / max(known, 1)
    return expected


class Rescue(TrainerCallback):
    """
    Keeps a run alive: if less than a quarter of the valid programs that earlier steps of the same competitions lead to
    expect are there, the last weights are put back that wrote as many as the run did so far, the optimizer forgets its
    moments, and the learning rate is halved. The last three steps are looked at, or as many as lead to expect 16. Also
    says if no score was new for 8 steps, and then ends training if asked to.

    A copy of the weights is in every checkpoint and in the memory of each process (where programs are sampled ahead,
    two). DeepSpeed and FSDP spread weights over processes: there, `model` is `None`, and only a warning says what to
    do.
    """

    def __init__(self, model: torch.nn.Module | None, stops_when_stale: bool):
        self._model, self._stops_when_stale = model, stops_when_stale
        self._kept: Weights = {}
        self._next: tuple[int, Weights] | None = None  # until their programs are seen, with the step before them
        self._state = _State()
        self._lost = ""  # what was seen, until weights are put back
        self._is_stale = False  # until it is said

    def observe(self, completions: Sequence[Completion], step: int) -> None:
        """Counts the valid programs of a step's completions, and their new scores."""
        state, judged, oldest = self._state, list[Counts](), step - 1
        for item in completions:
            # Those sampled before weights were put back are lost, too
            if item.evaluation.infrastructure_failed or (item.staleness or 0) > state.age:
                continue
            oldest = min(oldest, step - 1 - (item.staleness or 0))
            quality, name = item.evaluation.quality, item.competition or ""
            judged.append({name: [quality is not None, 1]})
            if quality is not None and quality not in (seen := state.scores.setdefault(name, [])):
                seen.append(quality)
                state.stale = -1
        state.age += 1
        if not judged:
            return
        state.stale += bool(state.scores)
        self._is_stale |= state.stale == STALE_STEPS
        state.steps.append(counts := _total(judged))
        everything, own = _total(state.steps), sum(valid for valid, _ in counts.values())
        is_good = own > 0 and own >= _expected(counts, everything)
        if self._next is None and (is_good or oldest < step - 1):  # before they change
            self._next = step - 1, {name: weight.detach().cpu().clone() for name, weight in self._weights().items()}
        if self._next is not None and oldest >= self._next[0]:
            if is_good:
                state.kept_step, self._kept = self._next
            self._next = None
        for count in STEPS:
            recent = _total(state.steps[-count:])
            expected, valid = _expected(recent, everything), sum(item[0] for item in recent.values())
            if expected >= ENOUGH:
                if valid < LOST * expected:
                    self._lost = f"{valid} programs of {count} steps are valid, not some {expected:.0f} as before"
                    del state.steps[-count:]
                break

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Puts the kept weights back if the programs are lost."""
        if self._lost:
            if self._kept:
                self._go_back(kwargs["optimizer"], kwargs["lr_scheduler"])
            what = "back to the weights of step" if self._kept else "begin again with the model of a checkpoint up to"
            logger.warning("%s: %s %d, with half the learning rate", self._lost, what, self._state.kept_step)
            self._state.age, self._lost, self._next = 0, "", None
        if self._is_stale:
            self._is_stale = False
            ends = "training ends (stop_when_stale)" if self._stops_when_stale else "--stop_when_stale would end here"
            logger.warning("no new score in %d steps: %s", STALE_STEPS, ends)
            control.should_training_stop |= self._stops_when_stale

    def _weights(self) -> Weights:
        named = self._model.named_parameters() if self._model is not None else ()
        return {name: weight for name, weight in named if weight.requires_grad}

    def _go_back(self, optimizer: Any, lr_scheduler: Any) -> None:
        with torch.no_grad():
            for name, weight in self._weights().items():
                weight.copy_(self._kept[name])
        optimizer.state.clear()
        for group in optimizer.param_groups:
            group["lr"] /= 2
        if isinstance(lr_scheduler, LambdaLR):  # it computes the rate of each step from these
            lr_scheduler.base_lrs = [rate / 2 for rate in lr_scheduler.base_lrs]
        self._state.rescues += 1

    def metrics(self) -> dict[str, float]:
        return {"scores": float(sum(map(len, self._state.scores.values()))), "rescues": float(self._state.rescues)}

    def state_dict(self) -> dict[str, Any]:
        return asdict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._state = _State(**state)

    def save_weights(self, folder: Path) -> None:
        if self._kept:
            save_file(self._kept, folder / WEIGHTS_FILE)

    def load_weights(self, folder: Path) -> None:
        if self._model is not None and (folder / WEIGHTS_FILE).is_file():
            self._kept = load_file(folder / WEIGHTS_FILE)
