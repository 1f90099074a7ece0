"""Sampling for asynchronous training: immediately, or by a vLLM server while the trainer continues."""

from collections.abc import Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import pad

from trl_mle.trainer.batch import Row
from trl_mle.trainer.engine.vllm_server import Request
from trl_mle.trainer.mle_grpo_trainer import MLEGRPOTrainer
from trl_mle.trainer.rollouts.ledger import Rollout


class Sampler:
    """Samples completions on request: a vLLM server starts at once; other engines sample when the completions are
    received. All processes call its methods together. With `keeps_logps` rollouts may be trained on after an update,
    and need log-probabilities: the trainer's, or the server's if it samples while the policy changes."""

    def __init__(self, trainer: MLEGRPOTrainer, keeps_logps: bool):
        self._trainer = trainer
        self.keeps_logps = keeps_logps
        self.server = trainer.vllm_server
        self._request: Request | None = None
        self.rows: list[Row] = []  # of all processes: requested, but not received
        self.step = 0  # generation steps trained on when they were requested

    def ask(self, rows: list[Row], step: int) -> None:
        """Requests a completion for each of this process's rows from the current policy."""
        self.rows, self.step = gather_object(rows), step
        self._send()

    def has_arrived(self) -> bool:
        return self.server is not None and self._request is not None and self.server.answered(self._request)

    def receive(self) -> list[Rollout]:
        """Completions of this process, with the facts about the sampling policy that later steps need."""
        if self._request is None:  # nothing was requested since a resume
            self._send()
        if self.server is not None:
            self.server.expected = self._request
        rollouts = self._sample()
        self.rows, self._request = [], None
        return rollouts

    def load(self, rows: list[Row], step: int) -> None:
        """Restores the requests of a checkpoint. Raises `ValueError` if they cannot be split over the processes."""
        trainer = self._trainer
        if len(rows) % trainer.accelerator.num_processes or len(rows) % (trainer.num_generations or 1):
            processes = trainer.accelerator.num_processes
            raise ValueError(f"the checkpoint's {len(rows)} requests cannot be split over {processes} processes")
        self.rows, self.step, self._request = rows, step, None
        if self.server is not None:
            self.server.forget()
            trainer._last_loaded_step = -1  # the server may have the weights of later steps

    @property
    def _own_rows(self) -> list[Row]:
        accelerator = self._trainer.accelerator
        count = len(self.rows) // accelerator.num_processes
        return self.rows[accelerator.process_index * count : (accelerator.process_index + 1) * count]

    def _send(self) -> None:
        if self.server is None:
            return
        trainer = self._trainer
        if trainer.state.global_step != trainer._last_loaded_step:  # as TRL does when it generates
            self.server.sync_weights()
            trainer._last_loaded_step = trainer.state.global_step
        prompt_ids, images, _ = trainer._tokenize_prompts([row["prompt"] for row in self._own_rows])
        assert trainer.num_generations is not None  # GRPOConfig has a default
        self._request = self.server.ask(prompt_ids, images, trainer.num_generations)

    def _sample(self) -> list[Rollout]:
        rows, trainer = self._own_rows, self._trainer
        generated = trainer._generate([row["prompt"] for row in rows])
        prompt_ids, completion_ids, _, completions, sampling_logps, *_ = generated
        logps: Sequence[Sequence[float | None] | None] = [None] * len(rows)
        if self.keeps_logps and self.server is None:
            logps = policy_logps(trainer, prompt_ids, completion_ids)
        elif self.keeps_logps:  # the sampling weights may be gone
            logps = sampling_logps
        columns = rows, prompt_ids, completion_ids, completions, sampling_logps or [None] * len(rows), logps
        return [Rollout(*column) for column in zip(*columns, strict=True)]


def generated(rollouts: Sequence[Rollout]) -> tuple:
    """The return value of TRL's `_generate`, for earlier completions."""
    # Those of a run without vLLM, resumed with it, have none: a ratio of 1
    logps = [rollout.sampling_logps or rollout.policy_logps for rollout in rollouts]
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
    """Log-probabilities of each completion token under the current policy, as TRL computes them."""
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
