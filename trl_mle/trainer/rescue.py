"""Goes back to a run's best weights when its programs stop being valid, and notices when it finds nothing new."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate.logging import get_logger
from safetensors.torch import load_file, save_file
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from trl_mle.trainer.batch import Completion


logger = get_logger(__name__)  # for the main process

WINDOW = 3  # steps
LOST = 0.25  # of the best share of valid programs
LEAST_VALID = 8  # valid programs of the best steps; fewer may be missing by chance
STALE_STEPS = 8  # without a score that the run had not seen
WEIGHTS_FILE = "best_weights.safetensors"  # in a checkpoint


@dataclass
class _State:
    best_share: float = 0.0  # of valid programs, in up to three steps
    best_step: int = 0
    rescues: int = 0
    recent: list[list[int]] = field(default_factory=list)  # valid programs, and all, of the last steps
    scores: dict[str, list[float]] = field(default_factory=dict)  # that were seen, of each competition
    new_step: int = 0  # the last step with a new score
    step: int = 0

    def share(self) -> float:
        return sum(valid for valid, _ in self.recent) / sum(count for _, count in self.recent)


class Rescue(TrainerCallback):
    """
    Keeps a run alive: if the share of valid programs in three steps falls below a quarter of the best that it was in
    three steps, the weights that wrote the best are put back, the optimizer forgets its moments, and the learning rate
    is halved. Also says if no score was new for 8 steps, and then ends training if asked to.

    A copy of the best trainable weights is in the memory of each process and in every checkpoint. DeepSpeed and FSDP
    spread weights over processes: there, `model` is `None`, and only a warning says what to do.
    """

    def __init__(self, model: torch.nn.Module | None, stops_when_stale: bool):
        self._model, self._stops_when_stale = model, stops_when_stale
        self._best: dict[str, torch.Tensor] = {}  # the weights
        self._state = _State()
        self._said = False  # that there was no new score for long

    def observe(self, completions: Sequence[Completion], step: int) -> None:
        """Counts the valid programs of a step's completions, and their new scores."""
        judged = [item for item in completions if not item.evaluation.infrastructure_failed]
        if not judged:
            return
        state, recent_valid = self._state, 0
        state.step = step
        for item in judged:
            if (quality := item.evaluation.quality) is None:
                continue
            recent_valid += 1
            if quality not in (seen := state.scores.setdefault(item.competition or "", [])):
                seen.append(quality)
                state.new_step, self._said = step, False
        state.recent = [*state.recent, [recent_valid, len(judged)]][-WINDOW:]
        if min(state.share(), recent_valid / len(judged)) <= state.best_share:
            return
        if sum(valid for valid, _ in state.recent) >= LEAST_VALID:
            state.best_share, state.best_step = state.share(), step
            # Before they change: those that wrote these programs
            self._best = {name: weight.detach().cpu().clone() for name, weight in self._weights().items()}

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Puts the best weights back if the programs are lost."""
        own = self._state
        if len(own.recent) == WINDOW and own.share() < LOST * own.best_share:
            lost = (
                f"step {state.global_step}: {own.share():.0%} of the programs of {WINDOW} steps were valid, after "
                f"{own.best_share:.0%} up to step {own.best_step}"
            )
            own.recent = []
            if self._best:
                self._go_back(kwargs["optimizer"], kwargs["lr_scheduler"])
                logger.warning("%s: back to the weights of that time, with half the learning rate", lost)
            else:
                logger.warning("%s: resume from a checkpoint of that time with half the learning_rate", lost)
        if own.new_step and own.step - own.new_step >= STALE_STEPS and not self._said:
            self._said = True
            ends = "training ends (stop_when_stale)" if self._stops_when_stale else "--stop_when_stale would end here"
            logger.warning("no new score since step %d: %s", own.new_step, ends)
            control.should_training_stop |= self._stops_when_stale

    def _weights(self) -> dict[str, torch.Tensor]:
        named = self._model.named_parameters() if self._model is not None else ()
        return {name: weight for name, weight in named if weight.requires_grad}

    def _go_back(self, optimizer: Any, lr_scheduler: Any) -> None:
        with torch.no_grad():
            for name, weight in self._weights().items():
                weight.copy_(self._best[name])
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
        if self._best:
            save_file(self._best, folder / WEIGHTS_FILE)

    def load_weights(self, folder: Path) -> None:
        if self._model is not None and (folder / WEIGHTS_FILE).is_file():
            self._best = load_file(folder / WEIGHTS_FILE)
