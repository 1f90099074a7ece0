"""An agent trained by TRL's own trainer and by ours. Its policy is random, but can only call tools."""

import json

import pandas as pd
import pytest
from support.on_cpu import ON_CPU
from support.tiny_models import SUBMIT, prompts, save_tiny_model

from trl_mle.environments import MLESpec
from trl_mle.execution import LocalExecutor


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


CALLS = [
    call("read_file", path="train.csv", lines=2),
    call("read_file", path="../private/test.csv"),
    *[call("start_program", program=f"import time; time.sleep(0.{i})\n{SUBMIT.format(i=i)}") for i in range(1, 4)],
    call("start_program", program="1 / 0"),
    call("wait_for_program"),
]


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """Folder of the policy, and its sampling options."""
    from transformers import AutoTokenizer
    from trl.chat_template_utils import qwen3_chat_template

    path = save_tiny_model(tmp_path_factory.mktemp("agent"), [*prompts(), qwen3_chat_template], 1500, CALLS)
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.chat_template = qwen3_chat_template
    tokenizer.save_pretrained(path)
    allowed = {tokenizer.convert_tokens_to_ids(text) for text in CALLS} | {tokenizer.eos_token_id}
    return path, {"suppress_tokens": [i for i in range(len(tokenizer)) if i not in allowed]}


@pytest.mark.slow
@pytest.mark.parametrize("ours", [False, True], ids=["GRPOTrainer", "MLEGRPOTrainer"])
def test_an_agent_is_trained(agent, tmp_path, monkeypatch, ours):
    from trl import GRPOConfig, GRPOTrainer

    from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    monkeypatch.setattr("trl_mle.environments.environment.ANSWER_CHARS", 200)
    path, generation = agent
    options = ON_CPU | {
        "output_dir": str(tmp_path), "per_device_train_batch_size": 8, "num_generations": 8, "max_steps": 2,
        "max_completion_length": 400, "max_tool_calling_iterations": 3, "generation_kwargs": generation, "seed": 1,
        "log_completions": True, "num_completions_to_print": 0,
    }  # fmt: skip
    own = {"improve_probability": 0.0, "duration_weighting": "linear", "max_prompt_length": None}
    config = MLEGRPOConfig(**options, **own) if ours else GRPOConfig(**options)
    trainer_class = MLEGRPOTrainer if ours else GRPOTrainer
    with LocalExecutor(max_parallel=2, timeout_s=20, packages=["pandas"]) as executor:
        spec = MLESpec(["wine"], executor, max_programs=2)
        trainer = trainer_class(
            model=path,
            args=config,
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
        )
        trainer.train()
    steps = [line for line in trainer.state.log_history if "reward" in line]
    assert len(steps) == 2
    assert all(0 < line["tools/failure_frequency"] < 1 for line in steps)  # for private files, and a third program
    table = pd.concat([pd.read_parquet(file) for file in sorted((tmp_path / "completions").glob("*.parquet"))])
    messages = [message for turns in table["completion"] for message in turns if message["role"] == "tool"]
    assert {"read_file", "start_program", "wait_for_program"} <= {message["name"] for message in messages}
    ran = table[table["outcome"] == "ok"]
    assert len(ran) >= 2
    assert (ran["duration_s"] >= 0.1).all()
    assert (ran["mle_reward"] > -1).all()
    if ours:
        assert "mle/duration_s/mean" in steps[0]
        assert table["duration_weight"].nunique() > 2
