import hashlib
import json
import math
import random
import textwrap
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import DistributedType, broadcast_object_list, gather_object, is_peft_model, set_seed
from datasets import Dataset, IterableDataset
from peft import LoraConfig
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl.distributed import DistributedBackend
from trl.models.utils import disable_gradient_checkpointing, unwrap_model_for_generation
from trl.trainer.utils import get_config_model_id, pad, use_adapter

from trl_mle.competitions import Competition, load_competition
from trl_mle.models import Completion, LanguageModelError, generate
from trl_mle.prompts import extract_code, improve_prompt, scratch_prompt
from trl_mle.rewards import MLEReward
from trl_mle.trainer.duration import MeanDuration, duration_weights
from trl_mle.trainer.hub import HubTrainer
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig
from trl_mle.trainer.program_metrics import program_metrics
from trl_mle.trainer.rollout_ledger import Rollout, RolloutLedger
from trl_mle.trainer.rollouts_in_flight import RolloutsInFlight
from trl_mle.trainer.running_baseline import RunningBaseline
from trl_mle.trainer.solution_pool import Solution, SolutionPool


if TYPE_CHECKING:
    from transformers import PreTrainedModel

# What a reward function that executes programs logs beside their durations, see [`~trl_mle.rewards.MLEReward`].
PROGRAM_COLUMNS = ("outcome", "valid", "score", "milestones", "cpu_s", "queue_wait_s", "output")

POOL_FILE = "solution_pool.json"  # in a checkpoint
ROLLOUTS_FILE = "rollouts.json"  # the same
LONG_PROMPT = 8192  # tokens of an improve prompt where max_prompt_length sets no limit
LONG_TEXT = "x\n" * 9999  # a program, and an output, longer than any prompt
NO_IMPROVING = "set improve_probability and debug_probability to 0 and max_turns to 1"

# What every row says about its prompt, and what it says if that asks for a solution from scratch.
SCRATCH: dict[str, Any] = {"prompt_kind": "scratch", "parent_id": None, "parent_score": None}


class MLEGRPOTrainer(HubTrainer):
    """
    Trainer for Group Relative Policy Optimization on programs: the duration-aware gradient updates of
    [Reinforcement Learning for Machine Learning Engineering Agents](https://huggingface.co/papers/2509.01684).

    A completion's advantage is multiplied by the [`~trl_mle.trainer.duration_weights`] of the time Δt that its program
    ran. Any reward function tells the trainer these times, with TRL's `log_extra("duration_s", [...])`, one value per
    completion and `None` where there is none. Evaluation is never weighted, and neither is the KL term.

    With probability `args.improve_probability` a group of completions is asked to improve a solution found before, from a
    [`~trl_mle.trainer.solution_pool.SolutionPool`] that is the same on all processes and part of a checkpoint. With
    `args.max_turns` each completion then goes on improving its own. Evaluation is from scratch, in one turn.

    What differs from [`~trl.GRPOTrainer`] besides (in `_calculate_rewards`, `_generate_and_score_completions`,
    `_generate`, `_get_per_token_logps_and_entropies`, `_tokenize_prompts`, the methods that save and load checkpoints, and
    those of [`~trl_mle.trainer.hub.HubTrainer`] that push and write the model card, all of which call TRL's own):

    - A completion whose `outcome` column says `"infrastructure"` (our failure, not the program's) is left out,
      whatever the reward functions returned for it.
    - The completions table has the columns `duration_weight`, `weighted_advantage`, `prompt_kind` and `parent_id`, and
      `mle/...` metrics summarise what the programs did.
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
            Dataset to use for training. If `None`, it is made from `competitions`. A column `competition` holds the
            competition's id; without it all rows count as one competition.
        competitions (`list[str | Competition]`, *optional*):
            Competitions to train on. Without `train_dataset` the prompts ask for a solution of each from scratch; set
            `args.max_steps` for the length of such a run, as an epoch of it is arbitrary and short. Improving needs them, and
            asks by prompts of its own, which take the place of a dataset's.
        timeout_s (`float`, *optional*, defaults to `60.0`):
            Time limit of a program as these prompts state it. The executor enforces its own.
        memory_mb (`int`, *optional*, defaults to `4096`):
            Memory limit of a program as these prompts state it.
        **kwargs:
            Further arguments of [`~trl.GRPOTrainer`].
    """

    _tag_names = ["trl", "grpo", "trl_mle"]  # noqa: RUF012 (TRL's class attributes)
    _name = "MLE-GRPO"
    _paper = {  # noqa: RUF012
        "title": "Reinforcement Learning for Machine Learning Engineering Agents",
        "id": "2509.01684",
        # docstyle-ignore
        "citation": textwrap.dedent("""\
            @inproceedings{yang2026reinforcement,
                title        = {{Reinforcement Learning for Machine Learning Engineering Agents}},
                author       = {Yang, Sherry and He-Yueya, Joy and Liang, Percy},
                booktitle    = {International Conference on Learning Representations},
                year         = 2026,
                eprint       = {arXiv:2509.01684},
            }"""),
    }

    args: MLEGRPOConfig
    model: "PreTrainedModel"

    def __init__(
        self,
        model: "str | PreTrainedModel",
        reward_funcs: Any = None,
        args: MLEGRPOConfig | None = None,
        train_dataset: Dataset | IterableDataset | None = None,
        eval_dataset: Any = None,
        *,
        competitions: list[str | Competition] | None = None,
        timeout_s: float = 60.0,
        memory_mb: int = 4096,
        **kwargs: Any,
    ) -> None:
        if args is None:
            model_name = model if isinstance(model, str) else get_config_model_id(model.config)
            args = MLEGRPOConfig(f"{model_name.split('/')[-1]}-MLE-GRPO")
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
        self.timeout_s, self.memory_mb = timeout_s, memory_mb
        self.pool = SolutionPool(
            {comp.id: comp.higher_is_better for comp in loaded},
            args.pool_size,
            args.pool_sampling,  # type: ignore[arg-type]
        )
        self._generation = 0  # batches generated so far, those before a resume included
        self.rollouts: RolloutsInFlight | None = None  # of asynchronous training
        self._replayed: list[Rollout] | None = None  # what `_generate` returns instead of sampling
        self._advantages: torch.Tensor | None = None  # of the batch of all processes, where they are not TRL's
        self._stored_logps: list[Rollout] | None = None  # whose log-probabilities take the place of TRL's
        self._baseline = RunningBaseline()
        assert args.generation_batch_size is not None  # GRPOConfig has filled it in
        self._mean_duration = MeanDuration(args.generation_batch_size)
        if train_dataset is None and loaded:
            rows = [{"prompt": scratch_prompt(comp, timeout_s, memory_mb), "competition": comp.id} for comp in loaded]
            train_dataset = _repeat_rows(rows, args)

        super().__init__(model, reward_funcs, args, train_dataset, eval_dataset, **kwargs)

        dropouts = [module.p for module in self.model.modules() if isinstance(module, torch.nn.Dropout)]
        args.check_model(dropout=max(dropouts, default=0.0), quantized=False)
        if self.use_vllm and self.vllm_mode == "colocate":
            # Its start has seeded all generators by the process's number, after TRL had by `seed`, and it samples from them
            processes, tensor_parallel_size = self.accelerator.num_processes, args.vllm_tensor_parallel_size
            set_seed(sampling_seed(args.seed, self.accelerator.process_index, processes, tensor_parallel_size))
        if args.max_turns > 1:  # the completions table has the rows of all turns
            size = args.generation_batch_size * args.max_turns
            self._logs = {
                name: deque(maxlen=size) if isinstance(rows, deque) else defaultdict(lambda: deque(maxlen=size))
                for name, rows in self._logs.items()
            }

        if args.async_rollouts:
            self.rollouts = self._make_rollouts()

        # Refuse long prompts now, not hours later; those of an environment or a stream are seen when they come
        if isinstance(train_dataset, Dataset) and self.environment_factories is None:
            distinct = {repr(prompt): prompt for prompt in train_dataset["prompt"]}
            self._tokenize_prompts(list(distinct.values()))
        if self._shows_solutions:
            if self.environment_factories is not None:
                raise ValueError(f"an environment has prompts of its own: {NO_IMPROVING}")
            for comp in loaded:
                for score in (-1.23456e-05, None):  # the longest that can be told of it
                    self._prompt_with(Solution(comp.id, LONG_TEXT, LONG_TEXT, score, step=0))

    @property
    def _shows_solutions(self) -> bool:
        """Whether prompts with earlier programs may occur."""
        asked = self.args.improve_probability + self.args.debug_probability > 0 or self.args.max_turns > 1
        return bool(self.competitions) and asked

    def _competition_of(self, example: dict[str, Any]) -> str | None:
        """The id in the dataset's column, or the only competition's."""
        if len(self.competitions) == 1:
            return example.get("competition") or next(iter(self.competitions))
        return example.get("competition")

    def _make_rollouts(self) -> RolloutsInFlight:
        rewards = [func for func in self.reward_funcs if isinstance(func, MLEReward)]
        if len(rewards) != 1:
            raise ValueError(
                f"async_rollouts needs one MLEReward, which executes programs ahead; there are {len(rewards)}"
            )
        if self.tools or self.environment_factories is not None or self.rollout_func is not None:
            raise ValueError("async_rollouts knows no tools, environments or rollout functions: leave them out")
        assert self.train_dataset is not None
        for name, value in next(iter(self.train_dataset)).items():
            try:
                json.dumps(value)
            except TypeError as error:
                raise ValueError(
                    f"checkpoints of async_rollouts hold rows of the dataset as JSON, which cannot hold its column {name!r}: "
                    "remove it, or make text of it"
                ) from error
        assert self.args.max_in_flight is not None  # MLEGRPOConfig has filled it in
        assert self.args.num_generations is not None
        unit_size = self.args.num_generations if self.args.async_unit == "group" else 1
        return RolloutsInFlight(RolloutLedger(self.args.max_in_flight, unit_size, self.args.max_staleness), rewards[0])

    def _tokenize_prompts(self, prompts: list) -> tuple:
        prompt_ids, images, multimodal_fields = super()._tokenize_prompts(prompts)
        limit = self.args.max_prompt_length
        longest = max(len(ids) for ids in prompt_ids)
        if limit is not None and longest > limit:
            raise ValueError(
                f"a prompt has {longest} tokens, more than max_prompt_length={limit}: raise it, or set null"
            )
        return prompt_ids, images, multimodal_fields

    def complete_with_base_model(self, prompts: Sequence[str], max_tokens: int) -> list[Completion]:
        """
        Answers prompts greedily by the model that training started from: the reference model (`beta > 0`), or a LoRA
        policy with its adapter disabled. The random generators stay as they are.

        Every process must call it at the same time, from its main thread: under ZeRO-3 the weights are gathered.

        Args:
            prompts (`Sequence[str]`):
                User messages; may be empty.
            max_tokens (`int`):
                Longest answer.

        Returns:
            `list[Completion]`: One for each prompt.

        Raises:
            `LanguageModelError`: There is no such model, because all weights are trained and `beta` is 0.
        """
        self.check_base_model()
        model = self.ref_model if self.ref_model is not None else self.model_wrapped
        devices = [self.accelerator.device] if self.accelerator.device.type == "cuda" else []
        with (
            torch.random.fork_rng(devices),
            self.model_for_generation(model) as unwrapped,
            use_adapter(unwrapped, None) if is_peft_model(unwrapped) else nullcontext(),
        ):
            return generate(unwrapped, self.processing_class, prompts, max_tokens)

    @contextmanager
    def model_for_generation(self, model: Any) -> Iterator[Any]:
        """The policy or its reference model, whole and in evaluation mode; afterwards it is as it was."""
        checkpointing: Any = self.args.gradient_checkpointing_kwargs  # a dictionary, once it was parsed
        with unwrap_model_for_generation(
            model, self.accelerator, gradient_checkpointing_kwargs=checkpointing
        ) as unwrapped:
            training = unwrapped.training
            unwrapped.eval()
            yield unwrapped
            unwrapped.train(training)

    def base_weights(self) -> dict[str, torch.Tensor]:
        """The weights of that model in this process, by name; under ZeRO-3 this process's part of each."""
        self.check_base_model()
        weights: dict[str, Any]
        if self.ref_model is not None:
            weights = dict(self.ref_model.named_parameters())
        else:
            weights = {name: weight for name, weight in self.model.named_parameters() if not weight.requires_grad}
        return {name: weight.ds_tensor for name, weight in weights.items()} if self.is_zero3 else weights

    @property
    def is_zero3(self) -> bool:
        """Whether DeepSpeed has split the weights over the processes."""
        return DistributedBackend(self.accelerator).is_zero3

    def check_base_model(self) -> None:
        """Raises `LanguageModelError` if [`complete_with_base_model`] cannot answer, or not by what training started from."""
        if self.accelerator.distributed_type == DistributedType.FSDP:
            raise LanguageModelError(
                "under FSDP the policy's base model cannot instrument: give an endpoint or a model"
            )
        if self.args.sync_ref_model:
            raise LanguageModelError(
                "with sync_ref_model the reference model follows the policy: give the instrumenter an endpoint or a model"
            )
        if self.ref_model is None and not is_peft_model(self.accelerator.unwrap_model(self.model)):
            raise LanguageModelError(
                "there is no base model to instrument with: train with LoRA (use_peft) or beta > 0, or give an endpoint "
                "or a model of its own"
            )

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: list, completions: list, completion_ids_list: list
    ) -> torch.Tensor:
        self._rewarded_at: float | None = None
        rewards_per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        mode = "train" if self.model.training else "eval"
        rows = gather_object(self._program_rows(inputs))
        # The slowest process is done now. (TRL's own gather is behind us, too, but on a GPU that returns before it is done.)
        waited = time.monotonic() - self._rewarded_at if self._rewarded_at is not None else None
        self._log_waiting_time(mode, gather_object([waited]))

        # TRL leaves a completion out only if *every* reward function gave `None` for it
        ours = torch.tensor([row.get("outcome") == "infrastructure" for row in rows])
        rewards_per_func[ours.to(rewards_per_func.device)] = torch.nan

        beats_parent = [self._beats_parent(row) for row in rows]
        if mode == "train" and self.args.improvement_bonus:
            bonus = self.args.improvement_bonus * torch.tensor([bool(beats) for beats in beats_parent])
            rewards_per_func[:, 0] += bonus.to(rewards_per_func)

        by_competition = defaultdict(list)
        for i, row in enumerate(rows):
            by_competition[row["competition"]].append(i)
        weights = torch.ones(len(rows))
        if mode == "train":
            known = [row.get("duration_s") for row in rows]
            # A completion without a program could be trained on at once
            unknown = 0.0 if self.args.duration_weighting == "inclusion" else math.nan
            durations = torch.tensor([unknown if seconds is None else float(seconds) for seconds in known])
            durations[ours] = torch.nan
            # The mean is taken per competition, or the slow competition would own the gradient
            for competition, indices in by_competition.items():
                weights[indices] = self._duration_weights(competition, durations[indices])
        for row, weight in zip(rows, weights.tolist(), strict=True):
            row["duration_weight"] = weight

        start = self.accelerator.process_index * len(prompts)
        self._local_weights = weights[start : start + len(prompts)]
        self._log_completion_extra("duration_weight", self._local_weights.tolist())
        for name in ("prompt_kind", "parent_id"):
            self._log_completion_extra(name, [row[name] for row in rows[start : start + len(prompts)]])
        if self.rollouts is not None:
            for name in ("rollout_id", "staleness"):
                self._log_completion_extra(name, [example.get(name) for example in inputs])
            if mode == "train" and self.args.async_unit == "rollout":
                names = gather_object(_prompt_names(inputs))
                self._advantages = self._advantages_of_rollouts(rewards_per_func, names, weights)
        self._log_program_metrics(mode, rows, by_competition)
        self._log_prompt_kinds(mode, rows, beats_parent)
        self._observe(mode, rows, completions)
        return rewards_per_func

    def _duration_weights(self, competition: str | None, durations: torch.Tensor) -> torch.Tensor:
        """Weights of what the batch of all processes holds of a competition."""
        sampled = mean = None
        if self.rollouts is not None and self.args.duration_weighting == "inclusion":
            durations = self.rollouts.ledger.longest_of_unit(durations)
            sampled = self.rollouts.ledger.known_units(competition)
        elif self.args.keeps_logps:  # with one batch in flight training is synchronous
            mean = self._mean_duration.update(competition, durations)
        return duration_weights(
            durations,
            self.args.duration_weighting,
            self.args.duration_weight_low,
            self.args.duration_weight_high,
            sampled,
            mean,
        )

    def _log_completion_extra(self, column: str, values: list) -> None:
        super()._log_completion_extra(column, values)
        self._rewarded_at = time.monotonic()  # reward functions log when they are done; the last one counts

    def _log_waiting_time(self, mode: str, waited: list[float | None]) -> None:
        """Of one process for the slowest, in seconds: what uneven programs cost."""
        known = [seconds for seconds in waited if seconds is not None]
        if known and self.accelerator.num_processes > 1:
            self._metrics[mode]["mle/process_wait_s/mean"].append(sum(known) / len(known))
            self._metrics[mode]["mle/process_wait_s/max"].append(max(known))

    def _beats_parent(self, row: dict[str, Any]) -> bool | None:
        """Whether a completion is a better solution than the one it was shown; `None` without one, or if not judged."""
        if row["parent_score"] is None or row.get("outcome") == "infrastructure":
            return None
        if not row.get("valid"):
            return False
        gain = row["score"] - row["parent_score"]
        return gain > 0 if self.competitions[row["competition"]].higher_is_better else gain < 0

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if not self.model.training:  # evaluation is from scratch, and one turn
            return self._one_turn([example | SCRATCH for example in inputs])
        if self.rollouts is not None:
            return self._train_on_finished_rollouts(inputs)
        roots = self._choose_prompts(inputs)
        outputs = [self._one_turn(roots)]
        own = self._local_solutions
        for _ in range(1, self.args.max_turns):
            outputs.append(self._one_turn(self._next_turn(roots, own)))
            own = [new or last for new, last in zip(self._local_solutions, own, strict=True)]
        self._generation += 1
        return join_outputs(outputs, self._tokenizer.pad_token_id)

    def _train_on_finished_rollouts(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """A step of asynchronous training: samples as many rollouts as may be in flight, trains on those that finished first."""
        assert self.rollouts is not None
        assert self.args.generation_batch_size is not None  # GRPOConfig has filled it in
        count = self.args.generation_batch_size
        while self.rollouts.ledger.has_room(count):  # once, unless there are none yet, or some were dropped
            self.rollouts.add(self._sample(self._choose_prompts(inputs)))
            self._generation += 1
        taken = self.rollouts.take(count)
        for key, value in self.rollouts.metrics(taken).items():
            self._metrics["train"][f"mle/async/{key}"].append(value)
        start = self.accelerator.process_index * len(inputs)
        local = taken[start : start + len(inputs)]
        staleness = [self.rollouts.ledger.step - 1 - rollout.step for rollout in local]
        self._replayed = local
        self._stored_logps = None if local[0].policy_logps is None else local
        output = self._one_turn(
            [
                rollout.row | {"evaluation": rollout.evaluation, "rollout_id": rollout.id, "staleness": age}
                for rollout, age in zip(local, staleness, strict=True)
            ]
        )
        if self._stored_logps is not None:  # TRL did not ask for them, because it takes what it is given for fresh
            output["old_per_token_logps"] = self._pad_stored_logps(output["completion_ids"].shape[1])
        return output

    def _sample(self, rows: list[dict[str, Any]]) -> list[Rollout]:
        """Completions of the current policy, with what later training steps must know of it."""
        prompt_ids, completion_ids, _, completions, sampling_logps, *_ = self._generate(
            [row["prompt"] for row in rows]
        )
        unknown = [None] * len(rows)
        columns = zip(
            rows,
            prompt_ids,
            completion_ids,
            completions,
            sampling_logps or unknown,
            self._policy_logps(prompt_ids, completion_ids) if self.args.keeps_logps else unknown,
            strict=True,
        )
        return [Rollout(*column) for column in columns]

    def _policy_logps(self, prompt_ids: list[list[int]], completion_ids: list[list[int]]) -> list[list[float]]:
        """Log-probability of each token of completions under the current policy, as TRL computes it."""
        ids, masks = [], []
        for sequences, side in ((prompt_ids, "left"), (completion_ids, "right")):
            tensors = [torch.tensor(sequence) for sequence in sequences]
            ids.append(pad(tensors, self._tokenizer.pad_token_id, side))
            masks.append(pad([torch.ones_like(tensor) for tensor in tensors], 0, side))
        checkpointing: Any = self.args.gradient_checkpointing_kwargs  # a dictionary, once it was parsed
        with torch.no_grad(), disable_gradient_checkpointing(self.model, checkpointing):
            logps, _, _ = self._get_per_token_logps_and_entropies(
                self.model,
                torch.cat(ids, dim=1).to(self.accelerator.device),
                torch.cat(masks, dim=1).to(self.accelerator.device),
                ids[1].shape[1],
                batch_size=self.args.per_device_train_batch_size,
            )
        return [row[: len(completion)] for row, completion in zip(logps.tolist(), completion_ids, strict=True)]

    def _generate(self, prompts: list) -> tuple:
        if self._replayed is None:
            return super()._generate(prompts)
        rollouts, self._replayed = self._replayed, None
        logps = [rollout.sampling_logps for rollout in rollouts]
        return (
            [rollout.prompt_ids for rollout in rollouts],
            [rollout.completion_ids for rollout in rollouts],
            None,
            [rollout.completion for rollout in rollouts],
            None if None in logps else logps,
            {},
            None,
            [],
        )

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple:
        # TRL asks for the log-probabilities of what it takes for fresh samples: they are those of the policy that sampled
        if self._stored_logps is not None and self.args.trl_asks_for_old_logps:
            return self._pad_stored_logps(logits_to_keep), None, None
        return super()._get_per_token_logps_and_entropies(
            model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
        )

    def _pad_stored_logps(self, width: int) -> torch.Tensor:
        assert self._stored_logps is not None
        rollouts, self._stored_logps = self._stored_logps, None
        rows = [torch.tensor(rollout.policy_logps) for rollout in rollouts]
        padded = torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])
        return padded.to(self.accelerator.device)

    def _one_turn(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        if self._advantages is not None:
            advantages, self._advantages = self._advantages, None
            start = self.accelerator.process_index * len(inputs)
            output["advantages"] = advantages[start : start + len(inputs)].to(output["advantages"])
            self._replace_logged_advantages(advantages.tolist())
        # Here, because `_prepare_inputs` shuffles and splits what this method returns
        output["advantages"] = output["advantages"] * self._local_weights.to(output["advantages"])
        # TRL has flushed its extra columns by now; this one goes where it put those, once for every batch
        extra_columns: Any = self._logs["extra"]
        extra_columns["weighted_advantage"].extend(gather_object(output["advantages"].tolist()))
        return output

    def _advantages_of_rollouts(
        self, rewards_per_func: torch.Tensor, prompts: list[str], weights: torch.Tensor
    ) -> torch.Tensor:
        """Advantages of the batch of all processes if each rollout is trained on by itself, without its group."""
        rewards = (rewards_per_func * self.reward_weights.to(rewards_per_func)).nansum(dim=1)
        rewards[rewards_per_func.isnan().all(dim=1)] = torch.nan
        return self._baseline.advantages(prompts, rewards.cpu(), weights, self.scale_rewards != "none")

    def _replace_logged_advantages(self, advantages: list[float]) -> None:
        """Takes back what TRL has logged of the batch as if it were made of groups."""
        logged: Any = self._logs["advantages"]
        for _ in advantages:
            logged.pop()
        logged.extend(advantages)
        self._metrics["train"].pop("frac_reward_zero_std")

    def _choose_prompts(self, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """
        The inputs, of which some groups are shown a solution of the pool to improve, or a failed program to repair.

        What a group gets is a function of the seed, the generation and the group's number over all processes, so that its
        members agree wherever they lie.
        """
        start = self.accelerator.process_index * len(inputs)
        if self._shows_solutions and isinstance(inputs[0]["prompt"], str):
            raise ValueError(
                f"the dataset's prompts are texts, and those that improve are conversations: {NO_IMPROVING}"
            )
        prompts: dict[Solution, list[dict[str, str]]] = {}
        chosen = []
        for i, example in enumerate(inputs):
            group = (start + i) // self.num_generations
            rng = random.Random(f"{self.args.seed}-{self._generation}-{group}")
            draw, competition = rng.random(), self._competition_of(example) or ""
            kind, parent = "scratch", None
            if draw < self.args.improve_probability:
                kind, parent = "improve", self.pool.sample(competition, rng)
            elif draw < self.args.improve_probability + self.args.debug_probability:
                kind, parent = "debug", self.pool.sample_failure(competition, rng)
            if parent is None:
                chosen.append(example | SCRATCH)
                continue
            if parent not in prompts:
                prompts[parent] = self._prompt_with(parent)
            chosen.append(example | {"prompt": prompts[parent]} | _parent_columns(kind, parent))
        return chosen

    def _next_turn(self, roots: list[dict[str, Any]], own: list[Solution | None]) -> list[dict[str, Any]]:
        """To improve the episode's last valid solution; without one, what its first turn was asked."""
        return [
            root if last is None else root | {"prompt": self._prompt_with(last)} | _parent_columns("improve", last)
            for root, last in zip(roots, own, strict=True)
        ]

    def _prompt_with(self, parent: Solution) -> list[dict[str, str]]:
        limit = self.args.max_prompt_length
        return improve_prompt(
            self.competitions[parent.competition],
            parent.source,
            parent.output,
            timeout_s=self.timeout_s,
            memory_mb=self.memory_mb,
            failed=parent.score is None,
            test_score=parent.score if self.args.show_test_score else None,
            max_tokens=limit if limit is not None else LONG_PROMPT,
            count_tokens=lambda prompt: len(super(MLEGRPOTrainer, self)._tokenize_prompts([prompt])[0][0]),
        )

    def _observe(self, mode: str, rows: list[dict[str, Any]], completions: list[Any]) -> None:
        """Adds the programs of all processes to the pool, in the order of the processes."""
        self._local_solutions: list[Solution | None] = [None] * len(completions)
        if not self.competitions:
            return
        texts = [item if isinstance(item, str) else item[-1]["content"] for item in completions]
        programs = gather_object([extract_code(text) for text in texts])
        solutions = [
            Solution(
                competition=row["competition"],
                source=program,
                output=row.get("output") or "",
                score=row.get("score") if row.get("valid") else None,
                step=self.state.global_step,
                parent_id=row["parent_id"],
            )
            if program is not None
            and row["competition"] in self.competitions
            and row.get("outcome") not in (None, "infrastructure")
            else None
            for row, program in zip(rows, programs, strict=True)
        ]
        start = self.accelerator.process_index * len(completions)
        own = solutions[start : start + len(completions)]
        self._local_solutions = [item if item is not None and item.score is not None else None for item in own]
        if mode == "train":
            self.pool.observe(solution for solution in solutions if solution is not None)
            for key, value in self.pool.metrics().items():
                self._metrics[mode][f"mle/pool/{key}"].append(value)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if self.args.should_save:  # one of the same name, of an earlier run, is not whole while it is overwritten
            folder = Path(self._get_output_dir(trial), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
            (folder / TRAINER_STATE_NAME).unlink(missing_ok=True)
        super()._save_checkpoint(model, trial)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        if self.args.should_save:
            state = {"generation": self._generation, "solutions": self.pool.state_dict()}
            Path(output_dir, POOL_FILE).write_text(json.dumps(state), encoding="utf-8")
            if self.rollouts is not None:
                rollouts = {
                    "rollouts": self.rollouts.state_dict(),
                    "baseline": self._baseline.state_dict(),
                    "mean_duration": self._mean_duration.state_dict(),
                }
                Path(output_dir, ROLLOUTS_FILE).write_text(json.dumps(rollouts), encoding="utf-8")
        # The Trainer writes trainer_state.json next, and last: a checkpoint that has it has the files of all processes
        self.accelerator.wait_for_everyone()

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        states = [None, None]
        if self.accelerator.is_main_process:
            for i, name in enumerate((POOL_FILE, ROLLOUTS_FILE)):
                if (path := Path(checkpoint, name)).is_file():  # else the checkpoint is TRL's, or not asynchronous
                    states[i] = json.loads(path.read_text(encoding="utf-8"))
        state, rollouts = broadcast_object_list(states)  # other machines need not see the files
        if state is not None:
            self._generation = state["generation"]
            self.pool.load_state_dict(state["solutions"])
        if rollouts is not None:
            if self.rollouts is None:
                raise ValueError(
                    f"{checkpoint} holds rollouts that were not trained on yet: resume with async_rollouts"
                )
            self.rollouts.load_state_dict(rollouts["rollouts"])
            if self.rollouts.ledger.in_flight and not self.args.keeps_logps:
                raise ValueError(
                    f"{checkpoint} holds rollouts of earlier steps: resume with max_in_flight of more than one batch"
                )
            self._baseline.load_state_dict(rollouts["baseline"])
            self._mean_duration.load_state_dict(rollouts.get("mean_duration", {}))  # older checkpoints have none

    def _program_rows(self, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the reward functions logged about each local completion, before TRL flushes it."""
        rows: list[dict[str, Any]] = [
            {"competition": self._competition_of(example)} | {name: example[name] for name in SCRATCH}
            for example in inputs
        ]
        logged = self._pending_extra_logs
        # Without `outcome` the reward functions are not ours, and a `score` may be anything
        for column in ("duration_s", *(PROGRAM_COLUMNS if "outcome" in logged else ())):
            if column not in logged:
                continue
            if len(logged[column]) != len(inputs):
                raise ValueError(
                    f'log_extra("{column}", ...) got {len(logged[column])} values for {len(inputs)} completions: log '
                    "one per completion, from one reward function"
                )
            for row, value in zip(rows, logged[column], strict=True):
                row[column] = value
        return rows

    def _log_program_metrics(self, mode: str, rows: list[dict], by_competition: dict[str | None, list[int]]) -> None:
        several = max(len(by_competition), len(self.competitions)) > 1
        for name, indices in by_competition.items():
            competition = self.competitions.get(name or "")
            prefix = f"mle/{competition.slug if competition else name}" if several else "mle"
            higher_is_better = competition.higher_is_better if competition else None
            for key, value in program_metrics(_columns([rows[i] for i in indices]), higher_is_better).items():
                self._metrics[mode][f"{prefix}/{key}"].append(value)
        if several:
            columns = _columns(rows)
            columns.pop("score", None)  # of different metrics: their mean says nothing
            for key, value in program_metrics(columns, None).items():
                self._metrics[mode][f"mle/{key}"].append(value)

    def _log_prompt_kinds(self, mode: str, rows: list[dict[str, Any]], beats_parent: list[bool | None]) -> None:
        """The same metrics for each kind of prompt, where there are several kinds, and how often a parent is beaten."""
        kinds = {row["prompt_kind"] for row in rows}
        if self._shows_solutions:
            only = next(iter(self.competitions.values())) if len(self.competitions) == 1 else None
            for kind in kinds:
                columns = _columns([row for row in rows if row["prompt_kind"] == kind])
                if only is None:
                    columns.pop("score", None)  # of different metrics: their mean says nothing
                for key, value in program_metrics(columns, only.higher_is_better if only else None).items():
                    self._metrics[mode][f"mle/{kind}/{key}"].append(value)
        beats = [value for value in beats_parent if value is not None]
        if beats:
            self._metrics[mode]["mle/improve/beats_parent_rate"].append(sum(beats) / len(beats))


def sampling_seed(seed: int, process: int, processes: int, tensor_parallel_size: int) -> int:
    """
    What a process seeds its generators with to sample with a vLLM of its own.

    Args:
        seed (`int`):
            The run's.
        process (`int`):
            Number of the process.
        processes (`int`):
            How many there are.
        tensor_parallel_size (`int`):
            How many of them share a vLLM: these must sample the same.

    Returns:
        `int`: Another one for every seed and every vLLM.
    """
    engines = processes // tensor_parallel_size
    return (seed * engines + process // tensor_parallel_size) % 2**32  # NumPy takes no more bits


def _parent_columns(kind: str, parent: Solution) -> dict[str, Any]:
    return {"prompt_kind": kind, "parent_id": parent.id, "parent_score": parent.score}


def join_outputs(outputs: list[dict[str, Any]], pad_token_id: int) -> dict[str, Any]:
    """
    The turns of a batch as one batch, the rows of the first turn first.

    Args:
        outputs (`list[dict]`):
            What TRL returned for each turn: tensors with a row for each completion, prompts padded on the left and
            completions on the right, and `num_items_in_batch`.
        pad_token_id (`int`):
            Token to pad with.

    Returns:
        `dict`: The same entries, with the rows of all turns.
    """
    if len(outputs) == 1:
        return outputs[0]
    joined: dict[str, Any] = {}
    for name, first in outputs[0].items():
        values = [output[name] for output in outputs]
        if name == "num_items_in_batch":
            joined[name] = sum(values[1:], start=first)
        elif first.dim() == 1:
            joined[name] = torch.cat(values)
        else:
            width = max(value.shape[1] for value in values)
            fill = pad_token_id if name.endswith("_ids") else 0
            left = name.startswith("prompt")
            joined[name] = torch.cat(
                [
                    torch.nn.functional.pad(
                        value, (width - value.shape[1], 0) if left else (0, width - value.shape[1]), value=fill
                    )
                    for value in values
                ]
            )
    return joined


def _prompt_names(inputs: list[dict[str, Any]]) -> list[str]:
    """What tells prompts apart whose rewards have a mean of their own. Few rollouts share a prompt to improve a solution."""
    return [
        hashlib.sha256(json.dumps(row["prompt"]).encode()).hexdigest()[:16]
        if row["prompt_kind"] == "scratch"
        else f"{row['prompt_kind']} {row.get('competition')}"
        for row in inputs
    ]


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = {name for row in rows for name in row}
    return {name: [row.get(name) for row in rows] for name in names}


def _repeat_rows(rows: list[dict[str, Any]], args: MLEGRPOConfig) -> Dataset:
    """
    Repeat the rows of a few competitions, because TRL's sampler drops an incomplete generation batch: fewer rows than
    one needs would train for zero steps.

    With `max_steps` all steps lie in one epoch, because the sampler's shuffling does not survive a resume beyond the
    first. Otherwise an epoch is the shortest that has every competition equally often and ends with an optimizer step.
    """
    assert args.generation_batch_size is not None  # GRPOConfig has filled it in
    assert args.num_generations is not None
    prompts = args.generation_batch_size // args.num_generations
    if args.max_steps > 0:
        micro_steps = args.max_steps * args.gradient_accumulation_steps
        count = prompts * math.ceil(micro_steps / args.micro_steps_per_generation)
    else:
        micro_steps = math.lcm(args.micro_steps_per_generation, args.gradient_accumulation_steps)
        count = math.lcm(prompts * micro_steps // args.micro_steps_per_generation, len(rows))
    return Dataset.from_list(rows).select([i % len(rows) for i in range(count)])
