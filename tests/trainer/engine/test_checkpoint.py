"""Training resumes from whole checkpoints of the same run, as if it had not been interrupted."""

import shutil
from pathlib import Path

import pytest
from datasets import Dataset
from peft import LoraConfig
from support import pool_runs, toy_trainer

from trl_mle.trainer.engine.checkpoint import CannotResume, damage


@pytest.fixture(scope="module")
def run(program_model, tmp_path_factory):
    """A checkpoint of a run with all possible files."""
    folder = tmp_path_factory.mktemp("run")
    pool_runs.run(program_model, folder, 1, async_rollouts=True, save_strategy="steps", save_steps=1)
    return folder


def test_a_checkpoint_that_is_written_again_is_not_whole_meanwhile(run, program_model, tmp_path, monkeypatch):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    trainer = pool_runs.make_trainer(program_model, copy, save_strategy="steps", save_steps=1, max_steps=1)

    def fill_up(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trainer, "_save_rng_state", fill_up)
    with pytest.raises(OSError, match="No space left"):
        trainer.train()
    assert damage(Path(copy, "checkpoint-1")) == "it was not written to its end"


def test_a_run_resumed_in_a_later_epoch_asks_what_it_would_have_asked(tiny_model, tmp_path):
    asked = []

    def reward(prompts, **kwargs):
        asked.append(prompts[::4])
        return [0.0] * len(prompts)

    def train(folder, resume_from_checkpoint=None):
        asked.clear()
        options = {"shuffle_dataset": True, "max_steps": 8, "max_completion_length": 1}
        options |= {"save_strategy": "steps", "save_steps": 5}
        trainer = toy_trainer.make_trainer(tiny_model, folder, reward, **options)
        rows = [[{"role": "user", "content": f"Program {i}"}] for i in range(6)]  # an epoch has three steps
        trainer.train_dataset = Dataset.from_dict({"prompt": rows})
        trainer.train(resume_from_checkpoint=resume_from_checkpoint)
        return list(asked)

    whole = train(tmp_path)
    assert train(tmp_path / "again", str(tmp_path / "checkpoint-5")) == whole[5:]
    assert sorted(map(str, whole[:3])) != sorted(map(str, whole[3:6]))


def test_an_adapter_of_another_scale_is_refused(tiny_model, tmp_path):
    def train(folder, use_rslora=False, **resume):
        config = LoraConfig(r=4, target_modules=["q_proj"], use_rslora=use_rslora, task_type="CAUSAL_LM")
        options = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1, "max_completion_length": 2}
        more = {"peft_config": config}
        toy_trainer.make_trainer(tiny_model, tmp_path / folder, trainer_kwargs=more, **options).train(**resume)

    train("whole")
    checkpoint = str(tmp_path / "whole" / "checkpoint-1")
    with pytest.raises(CannotResume, match="checkpoint-1 was trained with use_rslora="):
        train("other", use_rslora=True, resume_from_checkpoint=checkpoint)
    train("same", resume_from_checkpoint=checkpoint)
