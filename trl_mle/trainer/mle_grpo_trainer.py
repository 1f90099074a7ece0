import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset, IterableDataset
from peft import LoraConfig
from trl.extras.profiling import profiling_context
from trl.trainer.utils import get_config_model_id

from trl_mle.competitions import Competition, TaskSet
from trl_mle.competitions.task_set import FEW
from trl_mle.execution import Limits
from trl_mle.rewards import find_reward
from trl_mle.trainer.asking.dataset import few_rows, scratch_dataset
from trl_mle.trainer.asking.solution_prompts import NO_IMPROVING, SolutionPrompts
from trl_mle.trainer.batch import SCRATCH, Batch, Completion, Row, competition_of, waiting_metrics
from trl_mle.trainer.engine.checkpoint import CheckpointTrainer, Saved
from trl_mle.trainer.engine.limits import LimitsTrainer, find_limits
from trl_mle.trainer.engine.plain_text import LongPrompt, PlainTextTrainer
from trl_mle.trainer.engine.prompt_sharing import SharedPromptsTrainer
from trl_mle.trainer.engine.pushes import HubTrainer
from trl_mle.trainer.engine.vllm_trainer import VLLMTrainer
from trl_mle.trainer.foreign import evaluations_from
from trl_mle.trainer.gradient.comparison import Comparison
from trl_mle.trainer.gradient.weighting import Weighting, weight_metrics
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig
from trl_mle.trainer.program_metrics import batch_metrics
from trl_mle.trainer.rescue import Rescue


if TYPE_CHECKING:
    from transformers import PreTrainedModel


LONGEST = 1000  # prompts of a dataset that are checked at the start, in a second or two


class MLEGRPOTrainer(
    CheckpointTrainer,
    HubTrainer,
    LimitsTrainer,
    PlainTextTrainer,
    SharedPromptsTrainer,
    VLLMTrainer,
):
    """
    Trainer for Group Relative Policy Optimization on programs: the duration-aware gradient updates of
    [Reinforcement Learning for Machine Learning Engineering Agents](https://huggingface.co/papers/2509.01684).

    A completion's advantage is multiplied by the [`~trl_mle.trainer.duration_weights`] of its program's duration Δt.
    Any reward function can report durations with TRL's `log_extra("duration_s", [...])`, one value per completion,
    `None` if unknown. Evaluation and the KL term are never weighted.

    With probability `args.improve_probability`, a group of completions improves an earlier solution from a
    [`~trl_mle.solutions.pool.SolutionPool`], which is the same on all processes and part of each checkpoint. Evaluation is
    from scratch.

    Further differences from [`~trl.GRPOTrainer`] (see also [`~trl_mle.trainer.engine.pushes.HubTrainer`] for pushes and the
    model card, and [`~trl_mle.trainer.engine.vllm_trainer.VLLMTrainer`] for sampling with vLLM):

    - A completion whose outcome is `"infrastructure"` (our failure, not the program's) is left out, whatever the reward
      functions return for it.
    - The completions table has the columns `duration_weight`, `weighted_advantage`, `prompt_kind` and `parent_id`, and
      `mle/...` metrics summarise the programs.

    Example:

    ```python
    >>> from trl_mle.execution import LocalExecutor
    >>> from trl_mle.rewards import MLEReward
    >>> from trl_mle.trainer import MLEGRPOTrainer

    >>> with LocalExecutor(timeout_s=60, memory_mb=4096) as executor:
    ...     trainer = MLEGRPOTrainer(
    ...         model="Qwen/Qwen2.5-0.5B-Instruct",
    ...         reward_funcs=MLEReward(competitions=["digits"], executor=executor),
    ...         competitions=["digits"],
    ...     )
    ...     trainer.train()
    ```

    Args:
        model (`str` or [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            Model to be trained, as for [`~trl.GRPOTrainer`].
        reward_funcs (`RewardFunc | list[RewardFunc]`, *optional*):
            Reward functions, as for [`~trl.GRPOTrainer`].
        args ([`MLEGRPOConfig`], *optional*):
            Configuration for this trainer. If `None`, a default configuration is used.
        train_dataset ([`~datasets.Dataset`] or [`~datasets.IterableDataset`], *optional*):
            Dataset to use for training. If `None`, it is built from `competitions`. The column `competition` holds the
            competition's id; without it, all rows count as one competition.
        competitions ([`~trl_mle.competitions.TaskSet`] or `list[str | Competition]`, *optional*):
            Competitions to train on, each loaded when it is first asked for. Without `train_dataset`, they provide the scratch
            prompts; set `args.max_steps`, because epochs are then short. Improve prompts need them, and replace the dataset's.
        limits ([`~trl_mle.execution.Limits`], *optional*):
            Limits of a program to state in prompts. Only without an [`~trl_mle.rewards.MLEReward`], whose executor
            otherwise defines them.
        **kwargs:
            Further arguments of [`~trl.GRPOTrainer`].
    """

    is_asynchronous = False

    def __init__(
        self,
        model: "str | PreTrainedModel",
        reward_funcs: Any = None,
        args: MLEGRPOConfig | None = None,
        train_dataset: Dataset | IterableDataset | None = None,
        eval_dataset: Any = None,
        *,
        competitions: TaskSet | Sequence[str | Competition] = (),
        limits: Limits | None = None,
        **kwargs: Any,
    ) -> None:
        if args is None:
            name = model if isinstance(model, str) else get_config_model_id(model.config)
            args = MLEGRPOConfig(f"{name.split('/')[-1]}-MLE-GRPO")
        if not isinstance(args, MLEGRPOConfig):
            raise TypeError(f"args must be an MLEGRPOConfig, got {type(args).__name__}")
        if args.async_rollouts != self.is_asynchronous:
            name = "AsyncMLEGRPOTrainer" if args.async_rollouts else "MLEGRPOTrainer"
            raise ValueError(f"async_rollouts={args.async_rollouts} is for {name}: train with that class")
        adapter, quantization = kwargs.get("peft_config"), kwargs.get("quantization_config")
        args.check_model(
            dropout=adapter.lora_dropout if isinstance(adapter, LoraConfig) else 0.0,
            # Models that are not quantized do not have this attribute
            quantized=quantization is not None or getattr(model, "is_loaded_in_4bit", False),
        )
        self.competitions = TaskSet.of(competitions)
        self.reward = find_reward(reward_funcs)  # evaluates programs before reward functions are called
        self.limits = find_limits(self.reward, limits)
        self.makes_dataset = train_dataset is None and bool(self.competitions)
        if self.makes_dataset:
            train_dataset = scratch_dataset(self.competitions, self.limits, args)
        self.saved: dict[str, Saved] = {}
        self.generation_batch = Batch()  # the latest

        # By name, because the __init__ of another subclass of GRPOTrainer may be next
        super().__init__(
            model, reward_funcs, args=args, train_dataset=train_dataset, eval_dataset=eval_dataset, **kwargs
        )
        self.shuffle_dataset = self.shuffle_dataset and not self.makes_dataset  # ours is in its order

        dropouts = [module.p for module in self.model.modules() if isinstance(module, torch.nn.Dropout)]
        attention_dropout = getattr(self.model.config.get_text_config(), "attention_dropout", 0.0)  # not all models'
        args.check_model(max(dropouts, default=0.0), quantized=False, attention_dropout=attention_dropout)

        self.comparison = Comparison(args, self.reward_funcs, self.reward_weights)
        self.weighting = Weighting(args)
        self.solution_prompts = SolutionPrompts(self.competitions, args, self.limits, self.count_tokens)
        spread = self.is_deepspeed_enabled or self.is_fsdp_enabled
        self.rescue = Rescue(None if spread else self._trainable, args.stop_when_stale)
        self.add_callback(self.rescue)
        self.saved |= {"solution_pool": self.solution_prompts, "weighting": self.weighting, "rescue": self.rescue}

        if self.makes_dataset:
            few = few_rows(self.competitions, self.limits, args)
            with self._blaming(few):
                self._tokenize_prompts([row["prompt"] for row in few])
        else:
            self._check_dataset(train_dataset)
            groups = args.completions_per_batch // args.group_size
            if isinstance(train_dataset, Dataset) and len(train_dataset) < groups:  # TRL drops what is no whole batch
                raise ValueError(
                    f"train_dataset has fewer rows ({len(train_dataset)}) than a generation batch has groups ({groups}): repeat "
                    "its rows, or raise num_generations"
                )
        for dataset in eval_dataset.values() if isinstance(eval_dataset, dict) else [eval_dataset]:
            self._check_dataset(dataset)
        if self.environment_factories is not None and self.solution_prompts.shows_solutions:
            raise ValueError(f"an environment has prompts of its own: {NO_IMPROVING}")
        self.solution_prompts.check()

    def _trainable(self) -> dict[str, torch.Tensor]:
        return {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}

    def _check_dataset(self, dataset: Any) -> None:
        """Refuses unknown competitions, and prompts that are too long, now, not hours later; those of an environment or a
        stream when they arrive."""
        if self.environment_factories is not None or not isinstance(dataset, Dataset) or not len(dataset):
            return
        stored = dataset.with_format(None)
        has_ids = "competition" in stored.column_names
        # A transform may add ids when a row is read, and a subclass may take them from another column
        is_stored = has_ids or dataset.format["type"] != "custom"
        if self.reward is not None and is_stored and not self.reward.overrides("evaluations", "items"):
            self.reward.check_known(stored["competition"] if has_ids else None)
        if "prompt" in stored.column_names:
            found = {repr(prompt): prompt for prompt in stored["prompt"]}
            prompts = [found[text] for text in sorted(found, key=len)[-LONGEST:]]
        else:  # made when a row is read, which loads its competition
            prompts = dataset[[i * len(dataset) // FEW for i in range(min(FEW, len(dataset)))]]["prompt"]
        self._tokenize_prompts(prompts)

    def state_limits(self, limits: Limits) -> None:
        self.limits = self.solution_prompts.limits = limits
        if self.makes_dataset:
            self.train_dataset = scratch_dataset(self.competitions, limits, self.args)

    def _generate_and_score_completions(self, inputs: list[Row]) -> dict[str, Any]:
        with self._blaming(inputs):
            if self.model.training:
                return self._training_batch(inputs)
            return self._scored([row | SCRATCH for row in inputs], Batch())  # evaluation is from scratch

    @contextmanager
    def _blaming(self, rows: list[Row]) -> Iterator[None]:
        """Names the competition of a prompt that is too long."""
        try:
            yield
        except LongPrompt as error:
            name = next(
                (competition_of(row, self.competitions) for row in rows if row.get("prompt") == error.prompt), None
            )
            if name not in self.competitions or name is None:
                raise
            with self.competitions.blaming(name):
                raise

    def _training_batch(self, inputs: list[Row]) -> dict[str, Any]:
        return self._scored(self._choose(inputs), Batch())

    def _choose(self, inputs: list[Row]) -> list[Row]:
        """The rows of a new batch: those of the dataset, or with prompts that improve a solution."""
        return self.solution_prompts.choose([row | SCRATCH for row in inputs], self._local(len(inputs)).start)

    def _scored(self, rows: list[Row], batch: Batch) -> dict[str, Any]:
        """TRL's batch, with weighted advantages."""
        self.generation_batch = batch
        output = super()._generate_and_score_completions(rows)
        logs: Any = self._logs
        if batch.advantages is not None:
            if output["advantages"].dim() > 1:
                raise ValueError(
                    "a trainer with an advantage per token needs objective='reward': the others have one advantage per "
                    "completion"
                )
            output["advantages"] = batch.advantages[self._local(len(rows))].to(output["advantages"])
            # Removes TRL's log entries, which assume its own advantages
            for _ in batch.advantages:
                logs["advantages"].pop()
            logs["advantages"].extend(batch.advantages.tolist())
            self._metrics["train"].pop("frac_reward_zero_std", None)
        # Here, because `_prepare_inputs` shuffles and splits what this method returns
        plain, output["advantages"] = output["advantages"], batch.weighted(output["advantages"])
        of_all = gather_object(batch.paid(plain, output["advantages"], output["completion_mask"]))
        if self.model.training:
            self._log_metrics("train", weight_metrics(*zip(*of_all, strict=True)))
        # TRL has already flushed its extra columns; add this one to the same place, once per batch
        logs["extra"]["weighted_advantage"].extend(weighted for _, weighted, *_ in of_all)
        return output

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
        rewards_per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        if self.reward is not None:
            evaluations = [row["evaluation"] for row in inputs]
            instrumented = self.reward.instrumenter is not None
        else:
            instrumented = "milestones" in self._pending_extra_logs
            evaluations = evaluations_from(self._pending_extra_logs, len(prompts), self.args.objective)
            self._pending_extra_logs.pop("program", None)  # the table has the completion
        pairs = zip(inputs, evaluations, strict=True)
        everyone = gather_object([Completion.of(row, item, self.competitions) for row, item in pairs])
        # The slowest process is done now. (TRL's own gather has also run, but on a GPU it returns before it is
        # complete.)
        self._log_metrics(mode, waiting_metrics(gather_object([self.generation_batch.waited_s()])))

        # TRL leaves a completion out only if *every* reward function gave `None` for it
        failed = torch.tensor([item.evaluation.infrastructure_failed for item in everyone])
        rewards_per_func[failed.to(rewards_per_func.device)] = torch.nan

        weights = self.weighting.weights(everyone) if mode == "train" else torch.ones(len(everyone))
        everyone = [replace(item, weight=weight) for item, weight in zip(everyone, weights.tolist(), strict=True)]
        self.generation_batch.completions = everyone[self._local(len(prompts))]
        self._log_columns(inputs)
        by_kind = self.solution_prompts.shows_solutions
        self._log_metrics(mode, batch_metrics(everyone, self.competitions, by_kind, instrumented))
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

    def _log_columns(self, rows: list[Row]) -> None:
        self._log_completion_extra("duration_weight", [item.weight for item in self.generation_batch.completions])
        for name in ("prompt_kind", "parent_id", *(["idea"] if self.args.ideas != "none" else [])):
            self._log_completion_extra(name, [row.get(name) for row in rows])

    def _log_completion_extra(self, column: str, values: list) -> None:
        super()._log_completion_extra(column, values)
        # Reward functions log when they are done; the last one counts
        self.generation_batch.rewarded_at = time.monotonic()

    def _log_metrics(self, mode: str, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self._metrics[mode][f"mle/{name}"].append(value)

    def _local(self, count: int) -> slice:
        """The slice of this process's rows in the rows of all processes."""
        return slice(self.accelerator.process_index * count, (self.accelerator.process_index + 1) * count)
