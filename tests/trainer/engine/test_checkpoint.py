"""Training does not resume from a checkpoint if any of its files was cut off."""

import json
import shutil
from pathlib import Path

import pytest
from datasets import Dataset
from peft import LoraConfig
from support import pool_runs, toy_trainer
from trl import GRPOTrainer
from trl.trainer.utils import RepeatSampler

from trl_mle.launching.checks import checkpoint_to_resume
from trl_mle.trainer.engine.checkpoint import FILES_FILE, CannotResume, EpochSampler, damage


@pytest.fixture(scope="module")
def run(program_model, tmp_path_factory):
    """Two checkpoints of a run with all possible files."""
    folder = tmp_path_factory.mktemp("run")
    options = {"async_rollouts": True, "save_strategy": "steps", "save_steps": 1}
    pool_runs.run(program_model, folder, 2, **options)
    return folder


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_every_file_is_listed_with_its_size(run):
    checkpoint = run / "checkpoint-2"
    sizes = json.loads((checkpoint / FILES_FILE).read_text())
    assert sorted([*sizes, FILES_FILE]) == files(checkpoint)
    for name in ("trainer_state.json", "optimizer.pt", "solution_pool.json", "rollouts.json"):
        assert sizes[name] == (checkpoint / name).stat().st_size
    assert damage(checkpoint) is None


def test_a_cut_at_any_file_is_noticed(run, tmp_path, capsys):
    """The previous checkpoint is used, and a line says why."""
    whole = run / "checkpoint-2"
    for name in files(whole):
        size = (whole / name).stat().st_size
        for left in sorted({0, size // 2, size - 1, None}, key=str):
            copy = tmp_path / "run"
            shutil.copytree(run, copy)
            path = copy / "checkpoint-2" / name
            if left is None:
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[:left])
            # The list is written last, so a checkpoint without it is whole: the process was killed just before
            if (name, left) != (FILES_FILE, None):
                assert checkpoint_to_resume("true", copy) == str(copy / "checkpoint-1"), (name, left)
                line = capsys.readouterr().err
                assert line.startswith("checkpoint-2 is left out: ")
                assert line.count("\n") == 1
                with pytest.raises(ValueError, match="; checkpoint-2 is left out: ") as error:
                    checkpoint_to_resume(str(copy / "checkpoint-2"), copy)
                assert "\n" not in str(error.value)
            shutil.rmtree(copy)


def test_no_checkpoint_is_whole(run, tmp_path):
    for number in (1, 2):
        folder = tmp_path / f"checkpoint-{number}"
        shutil.copytree(run / f"checkpoint-{number}", folder)
        (folder / "optimizer.pt").write_bytes(b"")
    expected = r"no complete checkpoint in .*; checkpoint-2 is left out: optimizer.pt has 0 bytes instead of \d+; checkpoint-1 is "
    with pytest.raises(ValueError, match=expected) as error:
        checkpoint_to_resume("true", tmp_path)
    assert "\n" not in str(error.value)


def test_a_checkpoint_of_the_model_alone(tiny_model, tmp_path):
    """`save_only_model` is for those who do not resume."""
    toy_trainer.make_trainer(
        tiny_model, tmp_path, toy_trainer.text_reward, max_steps=1, save_strategy="steps", save_only_model=True
    ).train()
    with pytest.raises(ValueError, match=r"; checkpoint-1 is left out: it has only the model \(save_only_model\)$"):
        checkpoint_to_resume("true", tmp_path)


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


def test_a_checkpoint_in_a_later_epoch_may_not_lie_between_two_generations(tiny_model, tmp_path):
    """Whether it does depends on the dataset, so it is refused when training begins."""
    options = {"per_device_train_batch_size": 8, "steps_per_generation": 3, "gradient_accumulation_steps": 2}
    options |= {"max_steps": -1, "num_train_epochs": 2, "save_strategy": "steps", "save_steps": 3}
    trainer = toy_trainer.make_trainer(tiny_model, tmp_path, rows=18, **options)  # three generation batches
    with pytest.raises(CannotResume, match=r"save_steps=3 saves between two generations.*: use a multiple of 5 "):
        trainer.train()
    assert trainer.state.global_step == 0


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("resumed_in", range(4))
def test_each_epoch_has_its_order(shuffle, resumed_in):
    """That of TRL's sampler in a run that was not interrupted, whichever epoch is the first."""
    plain, resumed = (RepeatSampler(range(10), 2, batch_size=3, repeat_count=2, shuffle=shuffle, seed=7) for _ in "ab")
    orders = [list(plain) for _ in range(4)]
    epoch = None
    sampler = EpochSampler(resumed, lambda: epoch)
    assert len(sampler) == len(orders[0])
    for epoch in range(resumed_in, 4):
        assert list(sampler) == orders[epoch]


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


def paths_of_keys(state, path=()):
    """Where the keys of a state are, in its first list entries, too."""
    if isinstance(state, list):
        state = dict(enumerate(state[:1]))
    for key, value in state.items() if isinstance(state, dict) else ():
        if isinstance(key, str):
            yield (*path, key)
        yield from paths_of_keys(value, (*path, key))


def test_a_state_of_another_version_ends_the_run_in_one_line(run, program_model, tmp_path, monkeypatch):
    """Whichever key of a part's state is missing, or unknown; entries that differ between runs may be missing."""
    trainer = pool_runs.make_trainer(program_model, tmp_path / "run", async_rollouts=True)
    monkeypatch.setattr(GRPOTrainer, "_load_optimizer_and_scheduler", lambda *args: None)  # only the parts' states
    refused = {}
    for part in ("solution_pool", "rollouts"):
        text = (run / "checkpoint-2" / f"{part}.json").read_text()
        (tmp_path / f"{part}.json").write_text(text)
        trainer._load_optimizer_and_scheduler(str(tmp_path))
        for path in paths_of_keys(json.loads(text)):
            for change in ("missing", "unknown"):
                state = entry = json.loads(text)
                for key in path[:-1]:
                    entry = entry[key]
                value = entry.pop(path[-1])
                if change == "unknown":
                    entry[f"{path[-1]}_2"] = value
                (tmp_path / f"{part}.json").write_text(json.dumps(state))
                try:
                    trainer._load_optimizer_and_scheduler(str(tmp_path))
                except CannotResume as error:
                    refused[part, *path] = str(error)
        (tmp_path / f"{part}.json").unlink()
    for (part, *_), message in refused.items():
        assert message.startswith(f"{part}.json in {tmp_path} is of another version of trl_mle, with which it")
        assert "\n" not in message
    for path in (("generation",), ("solutions",), ("holdout",)):
        assert ("solution_pool", *path) in refused
    for path in (("step",), ("in_flight",), ("asked",), ("in_flight", 0, "row"), ("in_flight", 0, "evaluation")):
        assert ("rollouts", *path) in refused


ADAPTER = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}
CHANGES = {
    "r": 8,
    "lora_alpha": 4096,
    "lora_dropout": 0.1,
    "target_modules": ["q_proj", "k_proj"],
    "use_rslora": True,
    "use_dora": True,
    "modules_to_save": ["lm_head"],
    "rank_pattern": {"q_proj": 2},
    "layers_to_transform": [0],
}


@pytest.fixture(scope="module")
def adapter_run(tiny_model, tmp_path_factory):
    """Two runs of a step: with the adapter, and without one."""
    folder = tmp_path_factory.mktemp("adapters")
    for name, adapter in {"with": ADAPTER, "without": None}.items():
        adapted(tiny_model, folder / name, adapter).train()
    return folder


def adapted(model, folder, adapter, **options):
    peft = None if adapter is None else LoraConfig(**adapter, task_type="CAUSAL_LM")
    options = {"max_steps": 1, "save_strategy": "steps", "save_steps": 1, "max_completion_length": 2} | options
    return toy_trainer.make_trainer(model, folder, trainer_kwargs={"peft_config": peft}, **options)


@pytest.mark.parametrize("name", CHANGES)
def test_another_adapter_is_refused(adapter_run, tiny_model, tmp_path, name):
    shutil.copytree(adapter_run / "with", tmp_path / "run")
    before = files(tmp_path / "run")
    trainer = adapted(tiny_model, tmp_path / "run", ADAPTER | {name: CHANGES[name]}, max_steps=2)
    with pytest.raises(
        CannotResume, match=rf"checkpoint-1 was trained with {name}=.*, not .*: resume it with"
    ) as error:
        trainer.train(resume_from_checkpoint=True)
    assert "\n" not in str(error.value)
    assert files(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("run", "adapter", "message"),
    [
        ("with", None, "checkpoint-1 was trained with an adapter, and this run has none: resume it with the same"),
        (
            "without",
            ADAPTER,
            "checkpoint-1 was trained with no adapter, and this run has one: resume it with the same",
        ),
    ],
)
def test_an_adapter_that_is_left_out_or_added_is_refused(adapter_run, tiny_model, tmp_path, run, adapter, message):
    trainer = adapted(tiny_model, tmp_path, adapter, max_steps=2)
    with pytest.raises(CannotResume, match=message):
        trainer.train(resume_from_checkpoint=str(adapter_run / run / "checkpoint-1"))


@pytest.mark.parametrize(
    "adapter", [ADAPTER | {"target_modules": ["v_proj", "q_proj"]}, ADAPTER | {"target_modules": None}]
)
def test_the_same_adapter_may_be_written_otherwise(adapter_run, tiny_model, tmp_path, adapter):
    """And what does not change the policy may be another."""
    trainer = adapted(tiny_model, tmp_path, adapter, max_steps=2, logging_steps=2, learning_rate=1e-4, save_steps=2)
    trainer.train(resume_from_checkpoint=str(adapter_run / "with" / "checkpoint-1"))
    assert trainer.state.global_step == 2
