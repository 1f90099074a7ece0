"""The sizes of a quickstart with a pretrained model, and how long it takes with them."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from trl_mle.files import write_whole
from trl_mle.showing import in_words


@dataclass(frozen=True)
class Sizes:
    """How much a quickstart samples and trains, and how fast the model was on this machine."""

    model: str  # folder or Hub id
    on_gpu: bool
    dtype: str  # of its frozen weights
    num_samples: int  # programs of an evaluation; there is one before training, and one after it
    max_steps: int
    num_generations: int  # programs per step, and per batch of an evaluation
    max_completion_length: int  # tokens
    micro_batch: int  # programs that are trained on at a time
    prompt_tokens: int
    prefill_s: float  # time of a batch before its first token
    token_s: float  # time that the next token of every program in the batch takes
    train_s: float  # time of a forward and a backward pass over a token of a prompt or completion

    @classmethod
    def read(cls, path: Path) -> "Sizes":
        """Reads what [`write`] has written; raises `ValueError` if it has not."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is truncated, or of another version: delete it ({error})") from error

    def write(self, path: Path) -> None:
        """Writes a JSON file, and the folders that it lies in."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps(asdict(self), indent=2) + "\n").encode())

    def training_options(self) -> list[Any]:
        """Options of `trl-mle train`, beside the recipe."""
        device: list[Any] = ["--accelerate_config", "cpu"]
        if self.on_gpu:
            device = ["--num_processes", 1, "--use_cpu", "false", "--bf16", "true"]
        return [
            *device, "--dtype", self.dtype, "--num_generations", self.num_generations,
            "--gradient_accumulation_steps", self.num_generations // self.micro_batch,
            "--max_completion_length", self.max_completion_length, "--max_steps", self.max_steps,
        ]  # fmt: skip

    def evaluation_options(self) -> list[Any]:
        """Options of `trl-mle evaluate`."""
        return [
            "--num_samples", self.num_samples, "--batch_size", self.num_generations, "--max_completion_length", self.max_completion_length,
        ]  # fmt: skip

    @property
    def step_s(self) -> float:
        """Longest time of a training step without its programs, in seconds: completions are padded to the longest."""
        tokens = self.num_generations * (self.prompt_tokens / self.micro_batch + self.max_completion_length)
        return self.prefill_s + self.max_completion_length * self.token_s + tokens * self.train_s

    @property
    def evaluation_s(self) -> float:
        """Longest time of an evaluation without its programs, in seconds."""
        batch_s = self.prefill_s + self.max_completion_length * self.token_s
        return math.ceil(self.num_samples / self.num_generations) * batch_s

    def estimate(self) -> str:
        """What the quickstart does, and how long it takes by what was measured."""
        total = 2 * self.evaluation_s + self.max_steps * self.step_s
        sampled, trained = self.num_generations / self.token_s, 1 / self.train_s
        return fill(
            f"about {in_words(total)}, and the time that programs run: {self.max_steps} steps of about {in_words(self.step_s)} with "
            f"{self.num_generations} programs each, at {sampled:.0f} tokens/s of sampling and {trained:.0f} of training (measured)",
            width=80,
        )
