import math
import shutil

import pandas as pd
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from support.advised_models import MORE_ADVICE, advised
from support.on_cpu import ON_CPU
from support.replay_executor import ReplayExecutor
from support.toy_trainer import PROMPTS, equal, make_trainer, text_reward, trained_weights
from trl import GRPOConfig, GRPOTrainer
from trl.experimental.gmpo import GMPOTrainer

from trl_mle.competitions import load_competition
from trl_mle.execution import Limits
from trl_mle.rewards import MLEReward
from trl_mle.rewards.progress import how_to_ask
from trl_mle.trainer import MLEGRPOConfig, MLEGRPOTrainer


def last_logs(trainer):
    """The logs of the latest generation batch; checks that all columns are equally long."""
    logs = trainer._logs
    columns = {"prompt": logs["prompt"], "advantages": logs["advantages"], **logs["rewards"], **logs["extra"]}
    assert len({len(column) for column in columns.values()}) == 1, {name: len(c) for name, c in columns.items()}
    return {name: list(column) for name, column in columns.items()}


@pytest.fixture(scope="module")
def stock_weights(tiny_model, tmp_path_factory):
    return trained_weights(tiny_model, tmp_path_factory.mktemp("stock"), cls=GRPOTrainer)


@pytest.mark.parametrize("options", [{"duration_weighting": "none"}, {"reward": text_reward}])
def test_without_weights_or_durations_it_is_stock_grpo_to_the_bit(tiny_model, tmp_path, stock_weights, options):
    assert equal(trained_weights(tiny_model, tmp_path, **options), stock_weights)


def test_any_reward_function_gets_the_weighting_by_logging_durations(tiny_model, tmp_path, stock_weights):
    trainer = make_trainer(tiny_model, tmp_path)
    trainer.train()
    assert not equal(dict(trainer.model.named_parameters()), stock_weights)
    logs = last_logs(trainer)
    durations, weights = logs["duration_s"], logs["duration_weight"]
    for prompt in PROMPTS:  # the mean is taken per competition
        rows = [i for i, logged in enumerate(logs["prompt"]) if logged == prompt]
        known = [durations[i] for i in rows if durations[i] is not None]
        expected = [1 if durations[i] is None else durations[i] * len(known) / sum(known) for i in rows]
        assert [weights[i] for i in rows] == pytest.approx(expected)
    assert logs["weighted_advantage"] == pytest.approx(
        [weight * advantage for weight, advantage in zip(weights, logs["advantages"], strict=True)]
    )
    history = trainer.state.log_history[0]
    assert history["mle/duration_weight/mean"] == pytest.approx(1)
    assert history["mle/a/duration_s/p50"] > 0
    assert not [key for key in history if "valid" in key]  # a user's reward reports nothing about programs


def program_reward(completions, log_extra, **kwargs):
    """Logs the columns of MLEReward; the first completion of each batch meets a failure of ours."""
    count = len(completions)
    log_extra("duration_s", [None] + [float(i) for i in range(1, count)])
    log_extra("outcome", ["infrastructure"] + ["ok"] * (count - 1))
    log_extra("valid", [False] + [i % 2 == 0 for i in range(1, count)])
    log_extra("score", [None] + [i / 10 if i % 2 == 0 else None for i in range(1, count)])
    log_extra("milestones", [""] + ["imports,model_trained" if i < 4 else "imports" for i in range(1, count)])
    log_extra("queue_wait_s", [None] + [0.5] * (count - 1))
    return [None] + [float(i) for i in range(1, count)]


def test_failure_of_ours_leaves_the_whole_row_out(tiny_model, tmp_path):
    """And program metrics are logged per competition."""
    trainer = make_trainer(tiny_model, tmp_path, [program_reward, text_reward], max_steps=1)
    trainer.competitions = {"a": load_competition("digits")}
    trainer.train()
    logs = last_logs(trainer)
    assert math.isnan(logs["program_reward"][0])
    assert math.isnan(logs["text_reward"][0])  # its number must not be trained on
    assert logs["advantages"][0] == logs["weighted_advantage"][0] == 0
    group = torch.tensor([logs["program_reward"][i] + logs["text_reward"][i] for i in range(1, 4)])
    expected = (group - group.mean()) / (group.std() + 1e-4)
    assert logs["advantages"][1:4] == pytest.approx(expected.tolist(), rel=1e-4)
    history = trainer.state.log_history[0]
    assert math.isfinite(history["grad_norm"])
    assert history["mle/valid_rate"] == pytest.approx(3 / 7)
    assert history["mle/outcome/infrastructure_rate"] == pytest.approx(1 / 8)
    assert history["mle/untrained_valid_rate"] == pytest.approx(2 / 3)
    assert "mle/score/mean" not in history  # there are two metrics
    assert {"mle/b/score/mean", "mle/digits/score/best"} <= history.keys()
    assert "mle/b/score/best" not in history  # unknown direction


def test_evaluation_is_not_weighted_and_logs_stay_in_step(tiny_model, tmp_path):
    evaluation = Dataset.from_dict({"prompt": PROMPTS, "competition": ["a", "b"]})
    options = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4, "num_generations_eval": 2}
    options |= {"log_completions": True, "trainer_kwargs": {"eval_dataset": evaluation}}
    trainer = make_trainer(tiny_model, tmp_path, **options)
    trainer.train()
    logs = last_logs(trainer)  # four completions of training, then four of evaluation
    assert logs["duration_weight"][:4] != [1.0] * 4
    assert logs["duration_weight"][4:] == [1.0] * 4
    assert logs["weighted_advantage"][4:] == logs["advantages"][4:]
    table = pd.read_parquet(tmp_path / "completions" / "completions_00003.parquet")
    assert {"duration_s", "duration_weight", "advantage", "weighted_advantage"} <= set(table.columns)
    assert table["weighted_advantage"].notna().all()


def test_samples_do_not_follow_what_the_models_folder_advises(tiny_model, tmp_path):
    sampled = {"plain": [], "advised": []}
    for name, model in {"plain": tiny_model, "advised": advised(tiny_model, tmp_path / "model")}.items():

        def reward(completions, completion_ids, name=name, **kwargs):
            sampled[name].append(completion_ids)
            return text_reward(completions)

        more = {"peft_config": LoraConfig(target_modules=["q_proj"])}
        trainer = make_trainer(model, tmp_path / name, reward, max_steps=2, trainer_kwargs=more)
        trainer.train()
    assert sampled["advised"] == sampled["plain"]
    assert MORE_ADVICE.items() <= trainer.model.generation_config.to_dict().items()  # saved as it was


def test_a_model_is_asked_as_in_its_own_training(tiny_model, tmp_path):
    """Unless the arguments say how. Its new folder says so, too."""
    model = shutil.copytree(tiny_model, tmp_path / "model")
    (model / "arguments.json").write_text('{"begin_program": false, "ideas": "default"}')
    make_trainer(str(model), tmp_path, ideas="none").save_model(str(tmp_path / "saved"))
    assert how_to_ask(str(tmp_path / "saved"), None, None) == (False, "none")


def test_prompts_are_made_from_competitions(tiny_model, tmp_path, caplog):
    options = ON_CPU | {"per_device_train_batch_size": 8, "num_generations": 4, "max_steps": 10}
    args = MLEGRPOConfig(str(tmp_path), **options, steps_per_generation=2, max_prompt_length=None)
    competitions = ["digits", load_competition("wine")]
    trainer = MLEGRPOTrainer(tiny_model, text_reward, args, competitions=competitions, limits=Limits(17, 999))
    assert len(trainer.train_dataset) == 10 // 2 * 4  # five batches of four groups, so that max_steps is one epoch
    assert len(trainer.get_train_dataloader()) == 10
    assert "Limits: 17 seconds, 999 MB" in trainer.train_dataset[0]["prompt"][0]["content"]
    trainer.create_model_card(model_name="policy")
    assert "https://huggingface.co/papers/2509.01684" in (tmp_path / "README.md").read_text()
    ours = MLEReward(["diabetes"], ReplayExecutor(), show_progress=False, fail_reward=-1.5)  # names its competitions
    assert [*MLEGRPOTrainer(tiny_model, ours, args).competitions] == ["diabetes"]
    assert "a constant guess gets the lowest reward of a valid program, -0.5, for diabetes" in caplog.text
    args.max_steps = -1
    epoch = MLEGRPOTrainer(tiny_model, text_reward, args, competitions=[*competitions, "diabetes"]).train_dataset
    assert len(epoch) == 12  # every competition equally often, in whole batches of four groups


def test_what_would_fail_later_is_refused_at_the_start(tiny_model, tmp_path):
    def check(message, reward=text_reward, error=ValueError, **options):
        with pytest.raises(error, match=message):
            make_trainer(tiny_model, tmp_path, reward, **options)

    ours = MLEReward(["digits", "wine"], ReplayExecutor(), show_progress=False)
    check("reward_funcs has 2 MLERewards", [ours, ours, text_reward])
    check("does not know the competition 'a'; it was given: digits, wine", ours)
    check("train_dataset has 1 rows for 2 groups: repeat", rows=1)  # TRL would save the untrained model
    rows = [*PROMPTS, [{"role": "user", "content": "word " * 99}]]
    long = Dataset.from_dict({"prompt": rows, "competition": list("abb")})
    for evaluation in (long, {"short": long.select(range(2)), "long": long}):
        options = {"trainer_kwargs": {"eval_dataset": evaluation}, "max_prompt_length": 99}
        check(r"a prompt has \d+ tokens, more than max_prompt_length=99", **options)
    with pytest.raises(TypeError, match="args must be an MLEGRPOConfig, got GRPOConfig"):
        MLEGRPOTrainer(tiny_model, text_reward, GRPOConfig(str(tmp_path), use_cpu=True, bf16=False))


class GMPO(MLEGRPOTrainer, GMPOTrainer):
    pass


def test_another_trainers_loss(tiny_model, tmp_path):
    """Trainers that change one method of GRPO can be combined with ours."""
    stock = trained_weights(tiny_model, tmp_path / "stock", cls=GMPOTrainer)
    none, linear = (
        trained_weights(tiny_model, tmp_path / method, cls=GMPO, duration_weighting=method)
        for method in ("none", "linear")
    )
    assert equal(none, stock)
    assert not equal(linear, stock)
    assert not equal(linear, trained_weights(tiny_model, tmp_path / "grpo"))
