"""The rollouts of all processes while their programs run."""

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import replace
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from trl import GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import pad

from trl_mle.rewards import MLEReward
from trl_mle.rewards.mle_reward import POLL_S, cut_middle
from trl_mle.rewards.pending import PendingEvaluation
from trl_mle.rewards.progress import ProgramsProgress
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig
from trl_mle.trainer.rollout_ledger import Rollout, RolloutLedger
from trl_mle.trainer.rows import Row


class RolloutsInFlight:
    """
    A [`RolloutLedger`] that is the same on all processes, and the programs that this process executes.

    All processes call its methods together. While they wait they tell each other every fifth of a second what has
    finished, so that no time limit of a collective operation bounds how long a program may take.

    Args:
        ledger ([`RolloutLedger`]):
            Of all processes.
        reward ([`~trl_mle.rewards.MLEReward`]):
            Executes the programs of this process.
    """

    def __init__(self, ledger: RolloutLedger, reward: MLEReward):
        self.ledger = ledger
        self._reward = reward
        self._pending: dict[int, PendingEvaluation] = {}  # of this process
        self._restored = False
        self._waited_s = 0.0
        self._last: tuple[float, float] | None = None  # when the last step was taken; for how long programs had run

    def add(self, rollouts: list[Rollout]) -> None:
        """Takes what each process has sampled, equally many, and executes their programs there."""
        self._restart()
        added = self.ledger.add(gather_object(rollouts))
        start = PartialState().process_index * len(rollouts)
        self._execute(added[start : start + len(rollouts)])

    def take(self, count: int) -> list[Rollout]:
        """Waits until so many rollouts can be trained on; returns those of all processes, in the order of sampling."""
        self._restart()  # with fewer in flight than before none may have been added
        began = time.monotonic()
        with ProgramsProgress(count, self._reward.show_progress) as progress:
            while True:
                self._poll()
                taken = self.ledger.take(count)
                if taken:
                    break
                running = [pending.running_s() for pending in self._pending.values()]
                progress.update(self.ledger.ready, f"slowest running {max(running, default=0):.0f} s")
                wait([item.future for item in self._pending.values()], POLL_S, return_when=FIRST_COMPLETED)
        self.ledger.check(gather_object(list(self._pending)))
        self._waited_s = time.monotonic() - began
        return taken

    def rows(self, taken: list[Rollout]) -> list[Row]:
        """What a batch of rollouts is trained on with: their prompts' rows, what they came to, and how stale they are."""
        return [
            rollout.row
            | {
                "evaluation": rollout.evaluation,
                "rollout_id": rollout.id,
                "staleness": self.ledger.step - 1 - rollout.step,
            }
            for rollout in taken
        ]

    def metrics(self, taken: list[Rollout]) -> dict[str, float]:
        """
        Those of [`RolloutLedger.metrics`], and of the time since the step before:

        - `wait_s`: seconds that training waited for programs.
        - `idle_s`: seconds that slots ran no program of these rollouts (but none, or an evaluation's), summed over the
          executor's slots, where it knows them and reports when programs start.
        """
        slots = self._reward.executor.slots if self._reward.executor.tells_start else None
        now, ran_s = time.monotonic(), self.ledger.ran_s
        metrics = self.ledger.metrics(taken) | {"wait_s": self._waited_s}
        if self._last is not None and slots is not None:
            then, ran_before_s = self._last
            metrics["idle_s"] = max(0.0, slots * (now - then) - (ran_s - ran_before_s))
        self._last = (now, ran_s)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; JSON can hold it."""
        return self.ledger.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what [`state_dict`] gave. Programs that had not ended are executed again before others are."""
        self.ledger.load_state_dict(state)
        self._pending, self._last, self._restored = {}, None, True

    def _restart(self) -> None:
        """After a resume, executes again what had not ended."""
        if self._restored:
            self._restored = False
            self._execute(self.ledger.unfinished[PartialState().process_index :: PartialState().num_processes])

    def _execute(self, rollouts: list[Rollout]) -> None:
        known = all("competition" in rollout.row for rollout in rollouts)
        competitions = [rollout.row["competition"] for rollout in rollouts] if known else None
        items = self._reward.items([rollout.completion for rollout in rollouts], competitions)
        # Also for none: an instrumenting model may need all processes at once
        for rollout, pending in zip(rollouts, self._reward.submit(items), strict=True):
            self._pending[rollout.id] = pending

    def _poll(self) -> None:
        """Tells all processes what became of the programs of each."""
        news = []
        for number, pending in list(self._pending.items()):
            evaluation = None
            if pending.poll():
                # As much of its output as is looked at later
                evaluation = replace(pending.result(), output=cut_middle(pending.result().output))
                del self._pending[number]
            news.append((number, pending.running_s(), evaluation))
        for number, running_s, evaluation in sorted(gather_object(news), key=lambda item: item[0]):
            if evaluation is None:
                self.ledger.observe(number, running_s)
            else:
                self.ledger.finish(number, evaluation)


def make_rollouts(args: MLEGRPOConfig, reward_funcs: Sequence[Any], example: Mapping[str, Any]) -> RolloutsInFlight:
    """
    Those of a run that has none yet.

    Args:
        args ([`MLEGRPOConfig`]):
            `max_in_flight`, `async_unit` and `max_staleness`.
        reward_funcs (`Sequence[RewardFunc]`):
            The trainer's, of which one executes programs.
        example (`Mapping[str, Any]`):
            A row of the dataset.

    Returns:
        [`RolloutsInFlight`]: Empty.

    Raises:
        `ValueError`: No reward function can execute programs ahead, the executor does not report what the weights need, or a
            checkpoint could not hold such rows.
    """
    rewards = [func for func in reward_funcs if isinstance(func, MLEReward)]
    if len(rewards) != 1:
        raise ValueError(
            f"async_rollouts needs one MLEReward, which executes programs ahead; there are {len(rewards)}"
        )
    if args.duration_weighting == "inclusion" and not rewards[0].executor.tells_start:
        raise ValueError(
            f"duration_weighting='inclusion' needs to know since when programs run, which {type(rewards[0].executor).__name__} does "
            "not report: set 'linear' or 'none'"
        )
    for name, value in example.items():
        try:
            json.dumps(value)
        except TypeError as error:
            raise ValueError(
                f"checkpoints of async_rollouts hold rows of the dataset as JSON, which cannot hold its column {name!r}: "
                "remove it, or make text of it"
            ) from error
    assert args.max_in_flight is not None  # MLEGRPOConfig has filled it in
    assert args.num_generations is not None
    unit_size = args.num_generations if args.async_unit == "group" else 1
    return RolloutsInFlight(RolloutLedger(args.max_in_flight, unit_size, args.max_staleness), rewards[0])


def sample(trainer: GRPOTrainer, rows: list[Row], keeps_logps: bool) -> list[Rollout]:
    """Completions of the current policy, with what later steps must know of it (the log-probabilities, if they are kept)."""
    prompt_ids, completion_ids, _, completions, sampling_logps, *_ = trainer._generate([row["prompt"] for row in rows])
    unknown = [None] * len(rows)
    columns = zip(
        rows,
        prompt_ids,
        completion_ids,
        completions,
        sampling_logps or unknown,
        policy_logps(trainer, prompt_ids, completion_ids) if keeps_logps else unknown,
        strict=True,
    )
    return [Rollout(*column) for column in columns]


def generated(rollouts: Sequence[Rollout]) -> tuple:
    """What TRL's `_generate` returns, for completions that were sampled before."""
    logps = [rollout.sampling_logps for rollout in rollouts]
    return (
        [rollout.prompt_ids for rollout in rollouts],
        [rollout.completion_ids for rollout in rollouts],
        None,
        [rollout.completion for rollout in rollouts],
        None if None in logps else logps,
        {},
        None,
        [],
    )


def policy_logps(
    trainer: GRPOTrainer, prompt_ids: list[list[int]], completion_ids: list[list[int]]
) -> list[list[float]]:
    """Log-probability of each token of completions under the current policy, as TRL computes it."""
    ids, masks = [], []
    for sequences, side in ((prompt_ids, "left"), (completion_ids, "right")):
        tensors = [torch.tensor(sequence) for sequence in sequences]
        ids.append(pad(tensors, trainer._tokenizer.pad_token_id, side))
        masks.append(pad([torch.ones_like(tensor) for tensor in tensors], 0, side))
    checkpointing: Any = trainer.args.gradient_checkpointing_kwargs  # a dictionary, once it was parsed
    model: Any = trainer.model
    with torch.no_grad(), disable_gradient_checkpointing(model, checkpointing):
        logps, _, _ = trainer._get_per_token_logps_and_entropies(
            model,
            torch.cat(ids, dim=1).to(trainer.accelerator.device),
            torch.cat(masks, dim=1).to(trainer.accelerator.device),
            ids[1].shape[1],
            batch_size=trainer.args.per_device_train_batch_size,
        )
    return [row[: len(completion)] for row, completion in zip(logps.tolist(), completion_ids, strict=True)]
