from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset, IterableDataset
from transformers import PreTrainedModel, PrinterCallback
from transformers.trainer import DEFAULT_PROGRESS_CALLBACK, TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer
from trl.extras.profiling import profiling_context
from trl.trainer.utils import get_config_model_id

from trl_mle.competitions import Competition, TaskSet
from trl_mle.execution import Limits
from trl_mle.models.transformers_model import without_defaults
from trl_mle.prompts import without_opening
from trl_mle.rewards import find_reward
from trl_mle.rewards.progress import how_to_ask, keep_arguments
from trl_mle.trainer.asking.dataset import check_prompts, scratch_dataset
from trl_mle.trainer.asking.solution_prompts import SolutionPrompts
from trl_mle.trainer.batch import Batch, Completion, Row, from_scratch
from trl_mle.trainer.engine import checkpoint, plain_text, prompt_sharing, pushes, vllm
from trl_mle.trainer.engine.limits import find_limits, kept_limits
from trl_mle.trainer.engine.vllm_server import VLLMServerError
from trl_mle.trainer.foreign import evaluations_from
from trl_mle.trainer.gradient.comparison import Comparison
from trl_mle.trainer.gradient.weighting import Weighting, weight_metrics
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig
from trl_mle.trainer.program_metrics import batch_metrics
from trl_mle.trainer.progress_callback import MLEProgressCallback
from trl_mle.trainer.rescue import Rescue


class MLEGRPOTrainer(GRPOTrainer):
    """
    Trainer for Group Relative Policy Optimization on programs: the duration-aware gradient updates of
    [Reinforcement Learning for Machine Learning Engineering Agents](https://huggingface.co/papers/2509.01684).

    A completion's advantage is multiplied by the [`~trl_mle.trainer.duration_weights`] of its program's duration Δt.
    Any reward function can report durations with TRL's `log_extra("duration_s", [...])`. With probability
    `args.improve_probability`, a group of completions improves an earlier solution. A completion that our
    infrastructure failed is left out. [`AsyncMLEGRPOTrainer`] trains while programs run.

    Example:

    ```python
    >>> from trl_mle.rewards import MLEReward
    >>> from trl_mle.trainer import MLEGRPOTrainer

    >>> reward = MLEReward(competitions=["digits"])
    >>> trainer = MLEGRPOTrainer("Qwen/Qwen2.5-0.5B-Instruct", reward, competitions=["digits"])
    >>> trainer.train()
    ```

    Args:
        model, reward_funcs, eval_dataset, **kwargs:
            See [`~trl.GRPOTrainer`].
        args ([`MLEGRPOConfig`], *optional*):
            Configuration for this trainer. If `None`, a default configuration is used.
        train_dataset ([`~datasets.Dataset`] or [`~datasets.IterableDataset`], *optional*):
            Dataset to use for training, with competitions' ids in the column `competition`. Defaults to prompts from
            scratch for `competitions`.
        competitions ([`~trl_mle.competitions.TaskSet`] or `list[str | Competition]`, *optional*):
            Competitions to train on, which improve prompts need; without a dataset, the reward's by default.
        limits ([`~trl_mle.execution.Limits`], *optional*):
            Limits to state in prompts, without an [`~trl_mle.rewards.MLEReward`], whose executor defines them.
    """

    _tag_names = ["trl", "grpo", "trl_mle"]  # noqa: RUF012 (TRL's class attributes)
    _name = "MLE-GRPO"
    _paper = pushes.PAPER
    is_asynchronous = False

    args: MLEGRPOConfig
    model: PreTrainedModel
    hub_model_id: Any  # a `str`, when there is a repository

    def __init__(
        self,
        model: str | PreTrainedModel,
        reward_funcs: Any = None,
        args: MLEGRPOConfig | None = None,
        train_dataset: Dataset | IterableDataset | None = None,
        eval_dataset: Any = None,
        *,
        competitions: TaskSet | Sequence[str | Competition] = (),
        limits: Limits | None = None,
        **kwargs: Any,
    ) -> None:
        name = model if isinstance(model, str) else get_config_model_id(model.config)
        args = args or MLEGRPOConfig(f"{name.split('/')[-1]}-MLE-GRPO")
        if not isinstance(args, MLEGRPOConfig):
            raise TypeError(f"args must be an MLEGRPOConfig, got {type(args).__name__}")
        if args.async_rollouts != self.is_asynchronous:
            other = "AsyncMLEGRPOTrainer" if args.async_rollouts else "MLEGRPOTrainer"
            raise ValueError(f"async_rollouts={args.async_rollouts} is for {other}: train with that class")
        args.begin_program, args.ideas = how_to_ask(name, args.begin_program, args.ideas)
        self.kept_arguments = args.to_dict()  # written beside the weights, as far as others need them
        self.reward = find_reward(reward_funcs)  # evaluates programs before reward functions are called
        own = self.reward.competitions if self.reward is not None and train_dataset is None else ()
        self.competitions = TaskSet.of(competitions or own)
        self.limits = find_limits(self.reward, limits)
        self.makes_dataset = train_dataset is None and bool(self.competitions)
        if self.makes_dataset:
            train_dataset = scratch_dataset(self.competitions, self.limits, args)
        self.generation_batch = Batch()  # the latest
        # By name, because the __init__ of another subclass of GRPOTrainer may be next
        super().__init__(
            model, reward_funcs, args=args, train_dataset=train_dataset, eval_dataset=eval_dataset, **kwargs
        )
        if any(isinstance(callback, MLEProgressCallback) for callback in self.callback_handler.callbacks):
            self.remove_callback(PrinterCallback if args.disable_tqdm else DEFAULT_PROGRESS_CALLBACK)
        self.shuffle_dataset = self.shuffle_dataset and not self.makes_dataset  # ours is in its order
        self.vllm_server = vllm.set_up(self, args.vllm_request_timeout_s)
        if args.share_prompts:
            prompt_sharing.check_sharing(self)
        plain_text.keep_template_arguments(self)
        self.comparison = Comparison(args, self.reward_funcs, self.reward_weights)
        self.weighting = Weighting(args)
        self.solution_prompts = SolutionPrompts(self.competitions, args, self.limits, self.count_tokens)
        spread = self.is_deepspeed_enabled or self.is_fsdp_enabled
        self.rescue = Rescue(None if spread else self.model, args.stop_when_stale)
        self.add_callback(self.rescue)
        # What has a state in checkpoints, by the names of its files there
        self.saved: dict[str, Any] = {
            "solution_pool": self.solution_prompts,
            "weighting": self.weighting,
            "rescue": self.rescue,
        }
        check_prompts(self, train_dataset, eval_dataset)
        self.solution_prompts.check(has_environment=self.environment_factories is not None)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        folder = Path(self.args.output_dir or "")
        if (resumed := checkpoint.resumed_from(resume_from_checkpoint, folder)) is not None:
            checkpoint.check_adapter(self.model, resumed)
        limits = kept_limits(self.limits, folder, resumed)
        if limits != self.limits:
            self.limits = self.solution_prompts.limits = limits
            if self.makes_dataset:
                self.train_dataset = scratch_dataset(self.competitions, limits, self.args)
        try:
            return super().train(resume_from_checkpoint, *args, **kwargs)
        except VLLMServerError:  # all processes are here
            if vllm.is_between_generations(self):
                self._save_checkpoint(self.model, None)
            raise

    def end_training(self) -> None:
        """Call this last: finishes trackers, shuts down a colocated vLLM, and destroys the process group."""
        vllm.shut_down(self)
        self.accelerator.end_training()

    # A batch, in the order in which TRL calls the hooks

    def _generate_and_score_completions(self, inputs: list[Row]) -> dict[str, Any]:
        rows = [from_scratch(row, self.competitions) for row in inputs]
        return self._training_batch(rows) if self.model.training else self._scored(rows, Batch())

    def _training_batch(self, inputs: list[Row]) -> dict[str, Any]:
        return self._scored(self.solution_prompts.choose(inputs, self._local(len(inputs)).start), Batch())

    def _scored(self, rows: list[Row], batch: Batch) -> dict[str, Any]:
        """TRL's batch, with weighted advantages."""
        self.generation_batch = batch
        output = super()._generate_and_score_completions(rows)
        logs: Any = self._logs
        if batch.advantages is not None:
            output["advantages"] = batch.replaced(output["advantages"], logs["advantages"], self._local(len(rows)))
            self._metrics["train"].pop("frac_reward_zero_std", None)  # of TRL's advantages
        # Here, because `_prepare_inputs` shuffles and splits what this method returns
        plain, output["advantages"] = output["advantages"], batch.weighted(output["advantages"])
        of_all = gather_object(batch.paid(plain, output["advantages"]))
        if self.model.training and self.args.duration_weighting != "none":
            self._log_metrics("train", weight_metrics(*zip(*of_all, strict=True)))
        # TRL has already flushed its extra columns; add this one to the same place, once per batch
        logs["extra"]["weighted_advantage"].extend(weighted for _, weighted, *_ in of_all)
        return output

    def _tokenize_prompts(self, prompts: list) -> tuple:
        prompt_ids, *others = self._tokens(prompts)
        plain_text.check_length(prompts, prompt_ids, self.args.max_prompt_length)
        return prompt_ids, *others

    def count_tokens(self, prompt: list[dict[str, str]]) -> int:
        """Number of tokens of a prompt of any length."""
        return len(self._tokens([prompt])[0][0])

    def _tokens(self, prompts: list) -> tuple:
        begun = plain_text.tokens_of_begun(self, prompts)
        return begun or super()._tokenize_prompts(plain_text.plain(self, prompts))

    def _generate(self, prompts: list) -> tuple:
        generated = super()._generate(prompts)
        plain_text.begin_answers(self, prompts, generated)
        return generated

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple:
        with without_defaults(self.model), prompt_sharing.sampling(self):
            return super()._generate_single_turn(*args, **kwargs)

    def _get_per_token_logps_and_entropies(self, model: Any, *inputs: Any, **kwargs: Any) -> tuple:
        if self.args.share_prompts:
            model = prompt_sharing.training(self, model, *inputs[:3])
        return super()._get_per_token_logps_and_entropies(model, *inputs, **kwargs)

    def _evaluated(self, inputs: list[Row], completions: list) -> list[Row]:
        """The rows with the evaluations of their completions, which an [`~trl_mle.rewards.MLEReward`] reads."""
        if self.reward is None:
            return inputs
        columns = {name: [row[name] for row in inputs] for name in inputs[0] if name != "prompt"}
        with profiling_context(self, "evaluate"):
            evaluations = self.reward.evaluations(completions, **columns, environments=self.environments)
        return [row | {"evaluation": item} for row, item in zip(inputs, evaluations, strict=True)]

    def _calculate_rewards(
        self, inputs: list[Row], prompts: list, completions: list, completion_ids_list: list
    ) -> torch.Tensor:
        mode = "train" if self.model.training else "eval"
        inputs = self._evaluated(inputs, completions)
        # For a reward model, which reads both as one conversation, the opening is a part of the completion
        whole = [without_opening(prompt) for prompt in prompts]
        rewards_per_func = super()._calculate_rewards(inputs, whole, completions, completion_ids_list)
        if self.reward is not None:
            evaluations = [row["evaluation"] for row in inputs]
            instrumented = self.reward.instrumenter is not None
        else:
            instrumented = "milestones" in self._pending_extra_logs
            evaluations = evaluations_from(self._pending_extra_logs, len(prompts), self.args.objective)
            self._pending_extra_logs.pop("program", None)  # the table has the completion
        pairs = zip(inputs, evaluations, strict=True)
        everyone = gather_object([Completion.of(row, item) for row, item in pairs])

        # TRL leaves a completion out only if *every* reward function gave `None` for it
        failed = torch.tensor([item.evaluation.infrastructure_failed for item in everyone])
        rewards_per_func[failed.to(rewards_per_func.device)] = torch.nan

        weights = self.weighting.weights(everyone) if mode == "train" else torch.ones(len(everyone))
        everyone = [replace(item, weight=weight) for item, weight in zip(everyone, weights.tolist(), strict=True)]
        self.generation_batch.completions = everyone[self._local(len(prompts))]
        self._log_completion_extra("duration_weight", [item.weight for item in self.generation_batch.completions])
        for name in ("prompt_kind", "parent_id", *(["idea"] if self.args.ideas != "none" else [])):
            self._log_completion_extra(name, [row.get(name) for row in inputs])
        self._log_metrics(
            mode, batch_metrics(everyone, self.competitions, self.solution_prompts.shows_solutions, instrumented)
        )
        if mode == "train":
            self._learn(everyone, rewards_per_func)
        return rewards_per_func

    def _learn(self, completions: list[Completion], rewards: torch.Tensor) -> None:
        """Computes the advantages of the completions of all processes, and keeps what later batches need of them."""
        self.generation_batch.advantages = self.comparison.advantages(completions, rewards)
        for observer in (self.solution_prompts, self.rescue):
            observer.observe(completions, self.state.global_step + 1)  # the counter rises at the end of a step
        for item in (self.solution_prompts, self.comparison, self.rescue):
            self._log_metrics("train", item.metrics())

    def _log_metrics(self, mode: str, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self._metrics[mode][f"mle/{name}"].append(value)

    def _local(self, count: int) -> slice:
        """The slice of this process's rows in the rows of all processes."""
        return slice(self.accelerator.process_index * count, (self.accelerator.process_index + 1) * count)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if self.log_completions:
            plain_text.make_logs_plain(self._logs)
        super().log(logs, start_time)

    # Checkpoints and the Hub

    def _get_train_sampler(self, *args: Any, **kwargs: Any) -> checkpoint.EpochSampler:
        # Not by set_epoch, which does not reach the sampler of a resumed run with several processes
        return checkpoint.EpochSampler(super()._get_train_sampler(*args, **kwargs), lambda: int(self.state.epoch or 0))

    def _save(self, output_dir: str | None = None, *args: Any, **kwargs: Any) -> None:
        super()._save(output_dir, *args, **kwargs)
        if self.args.should_save:
            keep_arguments(Path(output_dir or self.args.output_dir or ""), self.kept_arguments)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if self.args.should_save:  # one of an earlier run is not whole while it is overwritten
            folder = Path(self._get_output_dir(trial), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
            (folder / TRAINER_STATE_NAME).unlink(missing_ok=True)
        super()._save_checkpoint(model, trial)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        if self.args.should_save:
            checkpoint.save_states(self.saved, Path(output_dir))
            self.rescue.save_weights(Path(output_dir))
        # The Trainer writes trainer_state.json next, as the last file: a checkpoint that has it is whole
        self.accelerator.wait_for_everyone()

    def _load_optimizer_and_scheduler(self, checkpoint_dir: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint_dir)
        if checkpoint_dir is not None:
            self.rescue.load_weights(Path(checkpoint_dir))
            checkpoint.load_states(self.saved, Path(checkpoint_dir))

    def init_hf_repo(self, token: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().init_hf_repo(token, *args, **kwargs)  # newer versions of transformers pass more
        if self.is_world_process_zero():
            pushes.prepare_repo(self.args, self.hub_model_id, token)

    def create_model_card(self, model_name: Any = None, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """See [`~trl.GRPOTrainer`]; what the model is for and its results are ours, all else is TRL's."""
        super().create_model_card(model_name, *args, **kwargs)
        if self.is_world_process_zero():
            pushes.complete_card(self, model_name)
