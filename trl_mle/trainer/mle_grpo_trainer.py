import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import broadcast_object_list, gather_object
from datasets import Dataset, IterableDataset
from peft import LoraConfig
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl.extras.profiling import profiling_context
from trl.trainer.utils import get_config_model_id

from trl_mle.competitions import Competition, load_competition
from trl_mle.execution import Limits
from trl_mle.rewards import MLEReward
from trl_mle.trainer.asking.dataset import scratch_dataset, scratch_rows
from trl_mle.trainer.asking.solution_prompts import NO_IMPROVING, SolutionPrompts
from trl_mle.trainer.engine.base_model import BaseModelTrainer
from trl_mle.trainer.engine.checkpoint import FILES_FILE, list_files
from trl_mle.trainer.engine.hooks import check_hooks
from trl_mle.trainer.engine.limits import LimitsTrainer, find_limits
from trl_mle.trainer.engine.plain_text import PlainTextTrainer
from trl_mle.trainer.engine.prompt_sharing import SharedPromptsTrainer
from trl_mle.trainer.engine.pushes import HubTrainer
from trl_mle.trainer.engine.vllm_trainer import VLLMTrainer
from trl_mle.trainer.foreign import evaluations_from
from trl_mle.trainer.gradient.objective import Objective
from trl_mle.trainer.gradient.weighting import Weighting, weight_metrics
from trl_mle.trainer.judged import SCRATCH, Row, judge
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig
from trl_mle.trainer.program_metrics import batch_metrics
from trl_mle.trainer.rollouts.in_flight import RolloutsInFlight, make_rollouts
from trl_mle.trainer.rollouts.sampler import Sampler, generated
from trl_mle.trainer.step import Step, join_outputs, resized, waiting_metrics


if TYPE_CHECKING:
    from transformers import PreTrainedModel

POOL_FILE, ROLLOUTS_FILE = "solution_pool.json", "rollouts.json"  # in a checkpoint


class MLEGRPOTrainer(BaseModelTrainer, HubTrainer, LimitsTrainer, PlainTextTrainer, SharedPromptsTrainer, VLLMTrainer):
    """
    Trainer for Group Relative Policy Optimization on programs: the duration-aware gradient updates of
    [Reinforcement Learning for Machine Learning Engineering Agents](https://huggingface.co/papers/2509.01684).

    A completion's advantage is multiplied by the [`~trl_mle.trainer.duration_weights`] of its program's duration Δt.
    Any reward function can report durations with TRL's `log_extra("duration_s", [...])`, one value per completion,
    `None` if unknown. Evaluation and the KL term are never weighted.

    With probability `args.improve_probability`, a group of completions improves an earlier solution from a
    [`~trl_mle.solutions.pool.SolutionPool`], which is the same on all processes and part of each checkpoint. With
    `args.max_turns`, each completion then continues to improve its own. Evaluation is from scratch, in one turn.

    Further differences from [`~trl.GRPOTrainer`] (see also [`~trl_mle.trainer.engine.pushes.HubTrainer`] for pushes and the
    model card, and [`~trl_mle.trainer.engine.vllm_trainer.VLLMTrainer`] for sampling with vLLM):

    - A completion whose `outcome` column is `"infrastructure"` (our failure, not the program's) is left out, whatever
      the reward functions return for it.
    - The completions table has the columns `duration_weight`, `weighted_advantage`, `prompt_kind` and `parent_id`, and
      `mle/...` metrics summarise the programs.
    - Prompts longer than `args.max_prompt_length` are refused.
    - With `args.async_rollouts` a step trains on the rollouts that finished first, whenever they were sampled (see
      docs/duration.md).

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
        competitions (`list[str | Competition]`, *optional*):
            Competitions to train on. Without `train_dataset`, they provide the scratch prompts; set `args.max_steps`
            for the length of such a run, because its epochs are arbitrary and short. Improve prompts need them, and
            replace the dataset's prompts.
        limits ([`~trl_mle.execution.Limits`], *optional*):
            Limits of a program to state in prompts. Only without an [`~trl_mle.rewards.MLEReward`], whose executor
            otherwise defines them. (`timeout_s` and `memory_mb` are deprecated.)
        **kwargs:
            Further arguments of [`~trl.GRPOTrainer`].
    """

    def __init__(
        self,
        model: "str | PreTrainedModel",
        reward_funcs: Any = None,
        args: MLEGRPOConfig | None = None,
        train_dataset: Dataset | IterableDataset | None = None,
        eval_dataset: Any = None,
        *,
        competitions: list[str | Competition] | None = None,
        limits: Limits | None = None,
        timeout_s: float | None = None,
        memory_mb: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_hooks()
        if args is None:
            name = model if isinstance(model, str) else get_config_model_id(model.config)
            args = MLEGRPOConfig(f"{name.split('/')[-1]}-MLE-GRPO")
        if not isinstance(args, MLEGRPOConfig):
            raise TypeError(f"args must be an MLEGRPOConfig, got {type(args).__name__}")
        adapter, quantization = kwargs.get("peft_config"), kwargs.get("quantization_config")
        args.check_model(
            dropout=adapter.lora_dropout if isinstance(adapter, LoraConfig) else 0.0,
            # Models that are not quantized do not have this attribute
            quantized=quantization is not None or getattr(model, "is_loaded_in_4bit", False),
        )
        loaded = [load_competition(comp) if isinstance(comp, str) else comp for comp in competitions or []]
        self.competitions = {comp.id: comp for comp in loaded}
        self.limits = find_limits(reward_funcs, limits, {"timeout_s": timeout_s, "memory_mb": memory_mb})
        self.makes_dataset = train_dataset is None and bool(loaded)
        if self.makes_dataset:
            self.scratch_rows = scratch_rows(loaded, self.limits, args.begin_program)
            train_dataset = scratch_dataset(list(self.scratch_rows.values()), args)
        self._mle_step: Step | None = None  # while a batch is generated and scored (TRL has a `_step`, which counts)

        # By name, because the __init__ of another subclass of GRPOTrainer may be next
        super().__init__(
            model, reward_funcs, args=args, train_dataset=train_dataset, eval_dataset=eval_dataset, **kwargs
        )
        self.shuffle_dataset = self.shuffle_dataset and not self.makes_dataset  # ours is in its order

        dropouts = [module.p for module in self.model.modules() if isinstance(module, torch.nn.Dropout)]
        args.check_model(dropout=max(dropouts, default=0.0), quantized=False)
        if args.max_turns > 1:
            self._logs = resized(self._logs, args.completions_per_batch * args.max_turns)

        rewards = [func for func in self.reward_funcs if isinstance(func, MLEReward)]
        if len(rewards) > 1:
            raise ValueError(f"reward_funcs has {len(rewards)} MLERewards: give one, with all competitions")
        self.reward = rewards[0] if rewards else None  # evaluates programs before reward functions are called
        self.objective: Objective = Objective(args, self.reward_funcs, self.reward_weights)
        self.rollouts: RolloutsInFlight | None = None  # where programs run ahead of the step that they are trained in
        if args.async_rollouts or args.skip_zero_signal:
            if self.tools or self.environment_factories is not None or self.rollout_func is not None:
                option = "async_rollouts" if args.async_rollouts else "skip_zero_signal"
                raise ValueError(f"{option} does not support tools, environments or rollout functions: leave them out")
            assert self.train_dataset is not None
            sampler, example = Sampler(self, args.keeps_logps), next(iter(self.train_dataset))
            self.rollouts = make_rollouts(args, self.reward_funcs, example, sampler, self.objective)
        self.weighting = Weighting(args, self.rollouts.ledger if self.rollouts is not None else None)
        self.solution_prompts = SolutionPrompts(self.competitions, args, self.limits, self._count_tokens)

        # Refuse long prompts now, not hours later; prompts of an environment or a stream are checked when they arrive
        if isinstance(train_dataset, Dataset) and self.environment_factories is None:
            self._tokenize_prompts(list({repr(prompt): prompt for prompt in train_dataset["prompt"]}.values()))
        if self.environment_factories is not None and self.solution_prompts.shows_solutions:
            raise ValueError(f"an environment has prompts of its own: {NO_IMPROVING}")
        self.solution_prompts.check()

    def _generate_and_score_completions(self, inputs: list[Row]) -> dict[str, Any]:
        if not self.model.training:  # evaluation is from scratch, and one turn
            return self._turn([example | SCRATCH for example in inputs], Step())
        if self.rollouts is not None:
            return self._train_on_finished_rollouts(self.rollouts, inputs)
        step = Step()
        roots = self._choose(inputs)
        outputs = [self._turn(roots, step)]
        own = step.solutions
        for _ in range(1, self.args.max_turns):
            step = Step()
            outputs.append(self._turn(self.solution_prompts.next_turn(roots, own), step))
            own = [new or last for new, last in zip(step.solutions, own, strict=True)]
        return join_outputs(outputs, self._tokenizer.pad_token_id)

    def _train_on_finished_rollouts(self, rollouts: RolloutsInFlight, inputs: list[Row]) -> dict[str, Any]:
        """Samples as many rollouts as may be in flight, trains on those that finished first: all of them if training is synchronous."""
        count, local = self.args.completions_per_batch, self._local(len(inputs))
        rollouts.fill(count, lambda: self._choose(inputs))
        taken = rollouts.take(count, lambda groups: self._choose_more(inputs, groups))
        if self.args.async_rollouts:
            self._log_metrics("train", rollouts.metrics(taken), "mle/async")
        if self.args.skip_zero_signal:
            self._log_metrics("train", rollouts.skip_metrics(), "mle/zero_signal")
        evaluations = [rollout.evaluation for rollout in rollouts.skipped if rollout.evaluation is not None]  # all
        skipped = judge([rollout.row for rollout in rollouts.skipped], evaluations, self.competitions)
        step = Step(replayed=taken[local], skipped=skipped)
        output = self._turn(rollouts.rows(taken[local]), step)
        stored = step.take_stored_logps(output["completion_ids"].shape[1])
        if stored is not None:  # TRL did not compute them, because it considers the rollouts fresh
            output["old_per_token_logps"] = stored.to(self.accelerator.device)
        return output

    def _choose(self, inputs: list[Row]) -> list[Row]:
        """The rows of a new batch: what the dataset asks for, some groups with a solution to improve."""
        return self.solution_prompts.choose(inputs, self._local(len(inputs)).start)

    def _choose_more(self, inputs: list[Row], groups: int) -> list[Row]:
        """The rows of more groups, which ask for what some of this batch have asked for."""
        rng = random.Random(f"{self.args.seed}-more-{self.solution_prompts.generation}")
        asked = rng.choices(gather_object(inputs)[:: self.args.group_size], k=groups)
        rows = [row for row in asked for _ in range(self.args.group_size)]
        return self._choose(rows[self._local(len(rows) // self.accelerator.num_processes)])

    def _turn(self, rows: list[Row], step: Step) -> dict[str, Any]:
        """TRL's batch, with weighted advantages."""
        self._mle_step = step
        try:
            output = super()._generate_and_score_completions(rows)
        finally:
            self._mle_step = None
        logs: Any = self._logs
        if step.advantages is not None:
            output["advantages"] = step.own_advantages(self._local(len(rows)), output["advantages"])
            # Removes TRL's log entries, which assume its own advantages
            for _ in step.advantages:
                logs["advantages"].pop()
            logs["advantages"].extend(step.advantages.tolist())
            self._metrics["train"].pop("frac_reward_zero_std")
        # Here, because `_prepare_inputs` shuffles and splits what this method returns
        plain, output["advantages"] = output["advantages"], step.weigh(output["advantages"])
        of_all = gather_object(step.paid(plain, output["advantages"], output["completion_mask"]))
        if self.model.training:
            self._log_metrics("train", weight_metrics(*zip(*of_all, strict=True)))
        # TRL has already flushed its extra columns; add this one to the same place, once per batch
        logs["extra"]["weighted_advantage"].extend(weighted for _, weighted, *_ in of_all)
        return output

    def _generate(self, prompts: list) -> tuple:
        if self._mle_step is not None and self._mle_step.replayed is not None:
            return generated(self._mle_step.replayed)
        return super()._generate(prompts)

    def _tokenize_prompts(self, prompts: list) -> tuple:
        prompt_ids, images, multimodal_fields = super()._tokenize_prompts(prompts)
        limit = self.args.max_prompt_length
        longest = max(len(ids) for ids in prompt_ids)
        if limit is not None and longest > limit:
            raise ValueError(
                f"a prompt has {longest} tokens, more than max_prompt_length={limit}: raise it, or set it to null"
            )
        return prompt_ids, images, multimodal_fields

    def _count_tokens(self, prompt: list[dict[str, str]]) -> int:
        """Number of tokens of a prompt of any length."""
        return len(super()._tokenize_prompts([prompt])[0][0])

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple:
        # TRL asks for log-probabilities because it considers the samples fresh: return those of the policy that
        # sampled
        if self._mle_step is not None and self.args.trl_asks_for_old_logps:
            stored = self._mle_step.take_stored_logps(logits_to_keep)
            if stored is not None:
                return stored.to(self.accelerator.device), None, None
        inputs = input_ids, attention_mask, logits_to_keep
        return super()._get_per_token_logps_and_entropies(model, *inputs, *args, **kwargs)

    def _calculate_rewards(
        self, inputs: list[Row], prompts: list, completions: list, completion_ids_list: list
    ) -> torch.Tensor:
        step, mode = self._mle_step, "train" if self.model.training else "eval"
        assert step is not None
        if self.reward is not None and step.replayed is None:
            columns = {name: [row[name] for row in inputs] for name in inputs[0] if name != "prompt"}
            with profiling_context(self, "evaluate"):
                evaluations = self.reward.evaluations(completions, **columns, environments=self.environments)
            inputs = [row | {"evaluation": item.shortened()} for row, item in zip(inputs, evaluations, strict=True)]
        rewards_per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        if self.reward is not None:
            evaluations = [row["evaluation"] for row in inputs]
        else:
            evaluations = evaluations_from(self._pending_extra_logs, len(prompts), self.args.objective)
            self._pending_extra_logs.pop("program", None)  # the table has the completion
        everyone = gather_object(judge(inputs, evaluations, self.competitions))
        # The slowest process is done now. (TRL's own gather has also run, but on a GPU it returns before it is
        # complete.)
        self._log_metrics(mode, waiting_metrics(gather_object([step.waited_s()])))

        # TRL leaves a completion out only if *every* reward function gave `None` for it
        failed = torch.tensor([item.evaluation.infrastructure_failed for item in everyone])
        rewards_per_func[failed.to(rewards_per_func.device)] = torch.nan

        weights = self.weighting.weights(everyone) if mode == "train" else torch.ones(len(everyone))
        everyone = [replace(item, weight=weight) for item, weight in zip(everyone, weights.tolist(), strict=True)]
        local = self._local(len(prompts))
        step.judged, step.weights = everyone[local], weights[local]
        self._log_completion_extra("duration_weight", step.weights.tolist())
        for name in ("prompt_kind", "parent_id"):
            self._log_completion_extra(name, [example[name] for example in inputs])
        if self.args.async_rollouts:
            for name in ("rollout_id", "staleness"):
                self._log_completion_extra(name, [example.get(name) for example in inputs])
        if mode == "train":
            step.advantages = self.objective.advantages(everyone, rewards_per_func, weights)
            self._log_metrics(mode, self.objective.metrics())
        executed = everyone + step.skipped
        self._log_metrics(mode, batch_metrics(executed, self.competitions, self.solution_prompts.shows_solutions))
        if mode == "train" and self.competitions:
            # The step counter rises at the end of a step
            step.solutions = self.solution_prompts.observe(executed, self.state.global_step + 1)[local]
            self._log_metrics(mode, self.solution_prompts.metrics())
        return rewards_per_func

    def _log_completion_extra(self, column: str, values: list) -> None:
        super()._log_completion_extra(column, values)
        if self._mle_step is not None:
            self._mle_step.rewarded_at = (
                time.monotonic()
            )  # reward functions log when they are done; the last one counts

    def _log_metrics(self, mode: str, metrics: dict[str, float], prefix: str = "mle") -> None:
        for name, value in metrics.items():
            self._metrics[mode][f"{prefix}/{name}"].append(value)

    def _local(self, count: int) -> slice:
        """The slice of this process's rows in the rows of all processes."""
        return slice(self.accelerator.process_index * count, (self.accelerator.process_index + 1) * count)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self._get_output_dir(trial), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        if self.args.should_save:  # one of the same name, of an earlier run, is not whole while it is overwritten
            for name in (TRAINER_STATE_NAME, FILES_FILE, POOL_FILE, ROLLOUTS_FILE):
                (folder / name).unlink(missing_ok=True)
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()  # with `save_only_model`, others may still write their shards
        if self.args.should_save:
            list_files(folder)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        if self.args.should_save:
            states = {POOL_FILE: self.solution_prompts.state_dict()}
            if self.rollouts is not None and self.args.async_rollouts:  # else nothing outlives a step
                states[ROLLOUTS_FILE] = {
                    "rollouts": self.rollouts.state_dict(),
                    "mean_duration": self.weighting.state_dict(),
                } | self.objective.state_dict()
            for name, state in states.items():
                Path(output_dir, name).write_text(json.dumps(state), encoding="utf-8")
        # The Trainer writes trainer_state.json next, as the last file: a checkpoint that has it has the files of all
        # processes
        self.accelerator.wait_for_everyone()

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        states: dict[str, Any] = {}
        if self.accelerator.is_main_process:
            for name in (POOL_FILE, ROLLOUTS_FILE):
                path = Path(checkpoint, name)
                if path.is_file():  # else the checkpoint is TRL's, or of another kind of run
                    states[name] = json.loads(path.read_text(encoding="utf-8"))
        [states] = broadcast_object_list([states])  # other machines need not see the files
        prompts, rollouts = states.get(POOL_FILE), states.get(ROLLOUTS_FILE)
        if prompts is not None:
            self.solution_prompts.load_state_dict(prompts)
        if rollouts is None:
            return
        if self.rollouts is None:
            if rollouts["rollouts"]["in_flight"]:
                raise ValueError(f"{checkpoint} has rollouts that were not trained on yet: resume with async_rollouts")
            return
        self.rollouts.load_state_dict(rollouts["rollouts"])
        if self.rollouts.ledger.in_flight and not self.args.keeps_logps:
            raise ValueError(
                f"{checkpoint} has rollouts of earlier steps: resume with max_in_flight of more than one batch"
            )
        self.objective.load_state_dict(rollouts)
        self.weighting.load_state_dict(rollouts.get("mean_duration", {}))  # older checkpoints have none
