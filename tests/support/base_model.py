"""
Trains with the policy's base model as instrumenter, on replayed completions.

Two processes run this script: only the first has programs, and the second only has to wait for it.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer

from support.fake_executor import FakeExecutor
from support.on_cpu import ON_CPU
from trl_mle.competitions import load_competition
from trl_mle.execution import ExecutionResult, Outcome, ProgramFuture
from trl_mle.instrumentation import LanguageModelError, LmInstrumenter, PolicyBaseModel
from trl_mle.launching import make_instrumenter
from trl_mle.rewards import MLEReward
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


PROMPTS = ["Hi", "Write a program for the competition. " * 5, "import pandas as pd"]
PROGRAM = "import pandas as pd\ntrain = pd.read_csv('input/train.csv')\nprint({number})\n"
TOKENS = 12
LORA = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)  # not zero


class FailingExecutor(FakeExecutor):
    """Every program fails after one second for each character of its text."""

    def submit(self, program, competition):
        future = ProgramFuture()
        source = program if isinstance(program, str) else program.original
        future.set_result(ExecutionResult(Outcome.ERROR, duration_s=float(len(source)), exit_code=1))
        return future


class ReplayTrainer(MLEGRPOTrainer):
    """Each completion of the first process is a new program; those of other processes contain no code."""

    count = 0

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        texts = ["no code"] * len(prompt_ids)
        if self.accelerator.process_index == 0:
            ReplayTrainer.count += len(prompt_ids)
            numbers = range(ReplayTrainer.count, ReplayTrainer.count + len(prompt_ids))
            texts = [f"```python\n{PROGRAM.replace('{number}', str(number))}```" for number in numbers]
        eos = self.processing_class.eos_token_id
        return [self.processing_class(text)["input_ids"] + [eos] for text in texts], None


def make_args(output_dir, **config):
    defaults = ON_CPU | {
        "learning_rate": 0.1,
        "max_steps": 3,
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 128,
        "scale_rewards": "none",
    }
    return MLEGRPOConfig(str(output_dir), **(defaults | config))


def make_trainer(model, args, instrumenter=None, peft_config=None):
    base_reward = MLEReward([load_competition("wine")], FailingExecutor(), instrumenter, show_progress=False)

    def reward(completions, **kwargs):
        """Rewards that differ within every group, so that the weights change."""
        return [value + i for i, value in enumerate(base_reward(completions=completions, **kwargs))]

    prompt = [{"role": "user", "content": "Write a program."}]
    dataset = Dataset.from_dict({"prompt": [prompt] * 12, "competition": ["wine"] * 12})
    return ReplayTrainer(model, reward, args, dataset, peft_config=peft_config)


def greedy(model, tokenizer, prompt, tokens=TOKENS):
    """A model's greedy answer with plain transformers."""
    messages = [{"role": "user", "content": prompt}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    with torch.no_grad():
        output = model.generate(torch.tensor([ids]), max_new_tokens=tokens, do_sample=False)[0, len(ids) :]
    return tokenizer.decode(output, skip_special_tokens=True)


def original_answers(model):
    tokenizer = AutoTokenizer.from_pretrained(model)
    original = AutoModelForCausalLM.from_pretrained(model).eval()
    return [greedy(original, tokenizer, prompt) for prompt in PROMPTS]


def error_of(call, *args):
    try:
        call(*args)
    except LanguageModelError as error:
        return str(error)
    return None


def main(model, output_dir):
    args = make_args(Path(output_dir) / "run")
    rank = args.process_index

    # As in the recipe: the instrumenter's own model is whole in every process, although the policy will be sharded
    wanted = {"instrumenter": "lm", "instrumenter_url": None, "instrumenter_model": model}
    own = make_instrumenter(SimpleNamespace(**wanted, instrumenter_mode="rewrite"), args).model

    base = PolicyBaseModel()
    trainer = make_trainer(model, args, LmInstrumenter(base), LORA)
    rewrite = error_of(PolicyBaseModel().bind, trainer, "rewrite")
    base.bind(trainer)
    trainer.train()
    logged = [log.get("mle/instrumenter/tokens_per_program") for log in trainer.state.log_history]
    results = {
        "rewrite": rewrite,
        "tokens": [tokens for tokens in logged if tokens is not None],
        "own": [completion.text for completion in own.complete(PROMPTS[rank:], TOKENS)],
        "base": [completion.text for completion in base.complete(PROMPTS if rank == 0 else [], TOKENS)],
        "changed": error_of(base.check_frozen),
    }
    own.check_frozen()
    weight, whole = next(iter(trainer.base_weights().values())), next(own.model.parameters())
    results["share"] = weight.numel() / whole.numel()
    weight.data.view(-1)[0] += 1.0
    results["changed later"] = error_of(base.check_frozen)
    Path(output_dir, f"{rank}.json").write_text(json.dumps(results))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
