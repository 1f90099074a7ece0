"""
Measures how fast a pretrained model is on this machine, and chooses the sizes of a quickstart with it.

    python -m trl_mle.scripts.measure Qwen/Qwen2.5-Coder-0.5B-Instruct digits sizes.json
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import torch
from huggingface_hub.errors import HTTPError
from peft import get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig, StoppingCriteria
from transformers.utils import find_adapter_config_file
from trl import get_peft_config
from trl.trainer.utils import add_fused_lm_head

from trl_mle.competitions import load_competition
from trl_mle.evaluation.policies import check_policy
from trl_mle.execution import Limits
from trl_mle.launching import make_parser
from trl_mle.models import SharedPrompts, is_bfloat16_faster, shared_prefill, tokenize_prompts, without_defaults
from trl_mle.prompts import scratch_prompt
from trl_mle.scripts.sizes import Sizes
from trl_mle.shipped import find_recipe
from trl_mle.showing import never_fail_to_print, terminal_line


RECIPE = "quickstart-pretrained"
STEP_S = 300.0  # A step takes at most this time, if the smallest sizes allow it
PROGRAMS = 8, 64  # Programs of a step: fewest and most
TOKENS = 192, 320  # Length limits of a completion: two in three of Qwen2.5-Coder-0.5B's need less, nine in ten
NUM_SAMPLES = 32
MEASURED_TOKENS = 8  # of each program
# Weights, and what stands beside them: cached keys, activations, logits, the adapter with its optimizer
MEMORY_FACTOR, MEMORY_MORE = 3, 3 << 30


class _TokenClock(StoppingCriteria):
    """Notes when the tokens of a batch were sampled; stops nothing."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        self.times.append(time.monotonic())
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class Measurement:
    """
    A model with the recipe's adapter, as training has it, and how fast it is.

    Raises:
        `OSError`: The model or the competition does not exist.
        `ValueError`: The model cannot be trained, or not on this machine.
    """

    def __init__(self, name: str, competition: str):
        recipe = ["--config", str(find_recipe(RECIPE))]
        script_args, self.training_args, model_args = make_parser().parse_args_and_config(recipe)
        check_trainable(name)
        self.name, self.on_gpu = name, torch.cuda.is_available()
        task = load_competition(competition, holdout=script_args.holdout)
        limits = Limits(script_args.program_timeout_s, script_args.program_memory_mb)
        prompt = scratch_prompt(task, limits, begin_program=self.training_args.begin_program)
        tokenizer = AutoTokenizer.from_pretrained(name)
        check_memory(name, self.on_gpu)
        self.dtype = torch.bfloat16 if self.on_gpu or is_bfloat16_faster() else torch.float32
        model = AutoModelForCausalLM.from_pretrained(name, dtype=self.dtype)
        add_fused_lm_head(model)  # as TRL's trainer does
        adapter: Any = get_peft_config(model_args)  # the recipe has one
        self.model = get_peft_model(model, adapter).to("cuda" if self.on_gpu else "cpu")
        self.prompt = torch.tensor(tokenize_prompts(tokenizer, [prompt]), device=self.model.device)
        self.sampled = GenerationConfig(
            max_new_tokens=1 + MEASURED_TOKENS,
            min_new_tokens=1 + MEASURED_TOKENS,
            do_sample=True,
            top_k=0,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.eos_token_id,
            **self.training_args.generation_kwargs,
        )
        with torch.no_grad():
            self.model(input_ids=self.prompt[:, :8])  # the first pass allocates

    def sampling(self, programs: int) -> tuple[float, float]:
        """Seconds until a batch of programs has its first token, and for each further one."""
        ids, clock = self.prompt.repeat(programs, 1), _TokenClock()
        began = time.monotonic()
        with without_defaults(self.model), shared_prefill(self.model.get_decoder()):
            self.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                generation_config=self.sampled,
                stopping_criteria=[clock],
            )
        return clock.times[0] - began, (clock.times[-1] - clock.times[0]) / MEASURED_TOKENS

    def training(self, completion_tokens: int) -> float:
        """Seconds of a forward and a backward pass over a token of a prompt or its completions, the prompt computed once."""
        rows = self.training_args.per_device_train_batch_size
        completions = self.prompt[:, :1].expand(rows, completion_tokens)
        ids = torch.cat([self.prompt.expand(rows, -1), completions], dim=1)
        length = self.prompt.shape[1] - 1
        model = SharedPrompts(self.model, self.model.get_decoder(), length)
        began = time.monotonic()
        with torch.autocast("cuda", torch.bfloat16, enabled=self.on_gpu):
            model(ids, torch.ones_like(ids), labels=ids, fused_lm_head=True).loss.backward()
        if self.on_gpu:
            torch.cuda.synchronize()
        return (time.monotonic() - began) / (length + rows * completion_tokens)

    def sizes(self) -> Sizes:
        """The largest sizes with which a step takes at most `STEP_S`, or else the smallest."""
        (fewest, most), (short, long) = PROGRAMS, TOKENS
        prefill_s, token_s = self.sampling(fewest)
        sizes = Sizes(
            model=self.name,
            on_gpu=self.on_gpu,
            dtype=str(self.dtype).removeprefix("torch."),
            micro_batch=self.training_args.per_device_train_batch_size,
            num_samples=NUM_SAMPLES,
            max_steps=self.training_args.max_steps,
            num_generations=fewest,
            max_completion_length=long,
            prompt_tokens=self.prompt.shape[1],
            prefill_s=prefill_s,
            token_s=token_s,
            train_s=self.training(short),
        )
        if sizes.step_s > STEP_S:
            return replace(sizes, max_completion_length=short)
        while sizes.num_generations < most and 2 * sizes.step_s <= STEP_S:
            programs = 2 * sizes.num_generations
            prefill_s, token_s = self.sampling(programs)
            larger = replace(sizes, num_generations=programs, prefill_s=prefill_s, token_s=token_s)
            if larger.step_s > STEP_S:
                break
            sizes = larger
        return sizes


def check_trainable(name: str) -> None:
    """Raises `OSError` or `ValueError` if a name is not that of a model with a chat template."""
    if name.startswith(("http://", "https://")):
        raise ValueError(
            f"--model: {name} is an endpoint, which cannot be trained: name a folder or a model of the Hub"
        )
    check_policy(name)
    if find_adapter_config_file(name) is not None:
        raise ValueError(f"--model: {name} is an adapter: name a model")


def check_memory(name: str, on_gpu: bool) -> None:
    """Raises `ValueError` if a model is too large for the memory that is free; reads only its configuration."""
    with torch.device("meta"):
        weights = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name)).num_parameters()
    print(f"the model has {weights:,} weights; measuring its speed on the {'GPU' if on_gpu else 'CPU'}", flush=True)
    needed = MEMORY_FACTOR * weights * (2 if on_gpu else 4) + MEMORY_MORE
    free = torch.cuda.mem_get_info()[0] if on_gpu else psutil.virtual_memory().available
    if needed > free:
        raise ValueError(
            f"--model: {name} has {weights:,} weights, and training it takes some {needed / 1e9:.0f} GB of memory: "
            f"{free / 1e9:.0f} GB are free"
        )


if __name__ == "__main__":
    never_fail_to_print()
    try:
        name, competition, path = sys.argv[1:]
        Measurement(name, competition).sizes().write(Path(path))
    except (ValueError, OSError, HTTPError) as error:
        print(f"trl-mle: error: {terminal_line(str(error))}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
