import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import LoraConfig
from transformers.utils import is_torch_bf16_gpu_available
from trl import GRPOConfig

from trl_mle.trainer.gradient.objectives import OBJECTIVES


# TRL uses the former; older versions of transformers, too, need the latter
OLD_NAMES = r"`(is_gradient_checkpointing|gradient_checkpointing\w*|past_key_values)` is deprecated"
warnings.filterwarnings("ignore", OLD_NAMES, FutureWarning)


@dataclass
class MLEGRPOConfig(GRPOConfig):
    r"""
    Configuration class for the [`MLEGRPOTrainer`], the trainer of https://huggingface.co/papers/2509.01684.

    It inherits every parameter from [`~trl.GRPOConfig`] and adds those below. It also refuses checkpoints from which a
    run could not resume exactly: TRL does not save completions that are still waiting to be trained on, so
    `save_steps` and `max_steps` must be multiples of the steps per generation. And it refuses
    `use_transformers_continuous_batching` if that would cast the trained weights to 16 bits. `bf16` defaults to `True`
    only where the GPU has it.

    Parameters:
        > Parameters that control the prompts

        max_prompt_length (`int`, *optional*, defaults to `1024`):
            Maximum length of a prompt in tokens, including the chat template. A longer prompt is refused, not
            truncated, because a truncated task description is useless. `None` allows any length.

        > Parameters that control self-improvement

        improve_probability (`float`, *optional*, defaults to `0.5`):
            Probability that a group of completions improves an earlier valid solution instead of writing one from
            scratch; with `ideas`, that it is asked for a variation of the idea of one. Before the first valid solution, all groups
            start from scratch. This option and the solution options below need the trainer's `competitions`.
        pool_size (`int`, *optional*, defaults to `64`):
            Number of solutions kept per competition; of more than 32 fewer, see [`~trl_mle.solutions.SolutionPool`].
        show_test_score (`bool`, *optional*, defaults to `False`):
            Whether an improve prompt states the solution's score on the hidden answers. Otherwise it only shows the
            program's output, which may include a validation score that it prints.

        > Parameters that control the objective

        objective (`str`, *optional*, defaults to `"reward"`):
            The objective to maximise, see docs/objective.md. Supported values are:

            - `"reward"`: the expected reward, as in the paper.
            - `"mean_rank"`: valid programs, and the rank of their score in the group, see
              [`~trl_mle.trainer.gradient.advantages.group_advantages`].
            - `"max_at_k"`: valid programs, and the best score of `max_at_k` of them.
            - the dotted name of an [`~trl_mle.trainer.gradient.objectives.Objective`] of your own, such as `my_module.Mine`.

            All but the first need an [`~trl_mle.rewards.MLEReward`], or a first reward function that logs the column `quality`.
        max_at_k (`int`, *optional*):
            k of `"max_at_k"`, from 2 to `num_generations`. Defaults to half of them, at most 8.
        begin_program (`bool`, *optional*, defaults to `True`):
            Whether the first lines of a program begin each answer: a small model then goes on with it. With `False`, prompts ask
            for a short plan and a program, as in the paper; for models that think, and for policies that were taught to.
        ideas (`str`, *optional*, defaults to `"none"`):
            What prompts from scratch ask a program to fit, a group at a time, in turn: `"default"` for general ideas by what a
            competition's programs predict and read, the path of a YAML file, or `"none"`. See [`~trl_mle.prompts.Ideas`]. Only
            where the trainer makes the dataset.

        > Parameters that control where programs are spent

        stop_when_stale (`bool`, *optional*, defaults to `False`):
            Whether training ends when no program has had a new score for 8 steps.

        > Parameters that control the duration weighting

        duration_weighting (`str`, *optional*):
            How to weight the advantage of a completion by the duration Δt of its program. Defaults to `"linear"` with
            the objective `"reward"`, and to `"none"` with the others. Supported values are:

            - `"linear"`: Δt / mean Δt, the mean taken per competition over the generation batch of all processes; with
              `async_rollouts` a running mean, see [`~trl_mle.trainer.gradient.weighting.MeanDuration`].
            - `"none"`: no weighting, the gradients of [`~trl.GRPOTrainer`].
        duration_weight_low (`float`, *optional*):
            Smallest weight, at most 1. Without it, a program that fails at once (Δt ≈ 0) has almost no penalty.
        duration_weight_high (`float`, *optional*):
            Largest weight, at least 1.

        > Parameters that control asynchronous training

        async_rollouts (`bool`, *optional*, defaults to `False`):
            Whether to train on the groups that finished first, whenever they were sampled, while slower programs
            keep running. Needs an [`~trl_mle.rewards.MLEReward`].
        max_in_flight (`int`, *optional*):
            Maximum number of rollouts, over all processes, that are sampled but not yet trained on; a multiple of
            `generation_batch_size`. With one batch, training is synchronous. Defaults to two batches, or to three if a
            vLLM server samples one of them in parallel.

        > Parameters that control speed

        share_prompts (`bool`, *optional*, defaults to `False`):
            Whether a training step computes a prompt once for all of its completions in a micro-batch, not once for each. The
            gradients are the same up to rounding, and prompts as long as completions cost half as much (see docs/scaling.md). Needs
            `gradient_checkpointing=False`, and no DeepSpeed, FSDP or linear attention.

        > Parameters that control a vLLM server

        vllm_request_timeout_s (`float`, *optional*, defaults to `1800.0`):
            Timeout of a request to the server, such as for the completions of a batch, in seconds. If the server fails,
            the run saves a checkpoint and ends.

        > Parameters whose default differs from [`~trl.GRPOConfig`]'s

        num_completions_to_print (`int`, *optional*, defaults to `0`):
            Number of programs per step that `log_completions` prints; `None` prints all. The tracker's table and
            `completions/*.parquet` always get all of them; a terminal is too narrow for them.
    """

    max_prompt_length: int | None = field(
        default=1024,
        metadata={"help": "Maximum length of a prompt in tokens. Longer ones are refused. `None` for any length."},
    )
    improve_probability: float = field(
        default=0.5, metadata={"help": "Probability that a group improves an earlier solution."}
    )
    pool_size: int = field(
        default=64, metadata={"help": "Number of solutions kept per competition (fewer of more than 32)."}
    )
    show_test_score: bool = field(
        default=False, metadata={"help": "Whether improve prompts state the score on the hidden answers."}
    )
    objective: str = field(
        default="reward",
        metadata={"help": "`reward`, `mean_rank`, `max_at_k`, or the dotted name of a class of your own."},
    )
    max_at_k: int | None = field(
        default=None, metadata={"help": "k of `max_at_k`. `None` for half of `num_generations`, at most 8."}
    )
    begin_program: bool = field(
        default=True, metadata={"help": "Whether the first lines of a program begin each answer, instead of a plan."}
    )
    ideas: str = field(
        default="none",
        metadata={"help": "Ideas that prompts ask for in turn: `none`, `default`, or a YAML file that lists them."},
    )
    stop_when_stale: bool = field(
        default=False, metadata={"help": "Whether training ends when no program has had a new score for 8 steps."}
    )
    duration_weighting: str | None = field(
        default=None,
        metadata={
            "help": "How to weight an advantage by its program's Δt: `linear` (Δt / mean Δt) or `none`. `None` for the "
            "objective's default.",
            "choices": ["linear", "none"],
        },
    )
    duration_weight_low: float | None = field(default=None, metadata={"help": "Smallest duration weight, at most 1."})
    duration_weight_high: float | None = field(default=None, metadata={"help": "Largest duration weight, at least 1."})
    async_rollouts: bool = field(
        default=False,
        metadata={"help": "Whether to train on the groups that finish first, while other programs run."},
    )
    max_in_flight: int | None = field(
        default=None,
        metadata={
            "help": "Maximum number of rollouts in flight. `None` for two generation batches, three with a vLLM server."
        },
    )
    share_prompts: bool = field(
        default=False,
        metadata={"help": "Whether to compute a prompt once for all of its completions in a micro-batch."},
    )
    vllm_request_timeout_s: float = field(
        default=1800.0, metadata={"help": "Timeout of a request to a vLLM server, in seconds."}
    )
    num_completions_to_print: int | None = field(
        default=0, metadata={"help": "Number of programs per step that `log_completions` prints; null prints all."}
    )

    def __post_init__(self) -> None:
        if isinstance(self.scale_rewards, str):  # of a command line
            self.scale_rewards = {"true": "group", "false": "none"}.get(self.scale_rewards.lower(), self.scale_rewards)
        if self.bf16 is None and (self.use_cpu or not is_torch_bf16_gpu_available()):
            self.bf16 = False  # TRL's default needs a GPU
        super().__post_init__()
        if self.max_prompt_length is not None and self.max_prompt_length < 1:
            raise ValueError(f"max_prompt_length must be at least 1 or None, got {self.max_prompt_length}")
        if not 0 <= self.improve_probability <= 1:
            raise ValueError(f"improve_probability must be between 0 and 1, got {self.improve_probability}")
        if self.pool_size < 1:
            raise ValueError(f"pool_size must be at least 1, got {self.pool_size}")
        self._check_sampling()
        self._check_objective()
        self._check_duration_weighting()
        self._check_async_rollouts()
        self._check_engine()
        if not self.max_steps:  # the Trainer takes one step all the same, and overwrites the model
            raise ValueError("max_steps must be at least 1, or -1 for num_train_epochs, got 0")
        self.check_checkpoints(self.max_steps)

    def _check_duration_weighting(self) -> None:
        if self.duration_weighting is None:
            self.duration_weighting = "linear" if self.objective == "reward" else "none"
        if self.duration_weighting not in ("linear", "none"):
            raise ValueError(f"duration_weighting must be 'linear' or 'none', got {self.duration_weighting!r}")
        low, high = self.duration_weight_low, self.duration_weight_high
        if low is not None and not 0 <= low <= 1:
            raise ValueError(f"duration_weight_low must be between 0 and 1, got {low}")
        if high is not None and not high >= 1:
            raise ValueError(f"duration_weight_high must be at least 1, got {high}")
        if self.duration_weighting == "none" and (low is not None or high is not None):
            raise ValueError(
                "duration_weight_low and duration_weight_high bound weights, and duration_weighting='none', the default of "
                "objectives other than 'reward', has none: set it to 'linear', or leave them out"
            )

    def _check_engine(self) -> None:
        """Refuses what would lose updates, or what prompts cannot be shared with."""
        if self.use_transformers_continuous_batching and (self.bf16 or self.fp16):
            raise ValueError(
                "use_transformers_continuous_batching (or use_transformers_paged) casts the trained weights to 16 bits, where "
                "small updates are lost: leave it out, or set bf16 and fp16 to false"
            )
        if self.share_prompts and self.gradient_checkpointing:
            raise ValueError(
                "share_prompts keeps what gradient_checkpointing drops: set gradient_checkpointing to false"
            )
        if self.enable_jit_checkpoint:
            raise ValueError(
                "enable_jit_checkpoint saves between two generations, where a run cannot be resumed exactly: leave it out, and "
                "lower save_steps"
            )

    def _check_sampling(self) -> None:
        """Refuses settings with which vLLM's log-probabilities are not those of training, and ratios far from 1."""
        if not self.use_vllm or not (self.vllm_importance_sampling_correction or self.async_rollouts):
            return
        off = {"temperature": (self.temperature,), "top_p": (1.0,), "top_k": (0, -1), "min_p": (None, 0.0)}
        off |= {"repetition_penalty": (1.0,), "presence_penalty": (None, 0.0), "frequency_penalty": (None, 0.0)}
        off |= {"min_tokens": (None, 0), "vllm_structured_outputs_regex": (None,)}
        off |= dict.fromkeys(("structured_outputs", "logit_bias", "bad_words", "allowed_token_ids"), (None,))
        more: Any = self.generation_kwargs or {}  # a dictionary, once it was parsed
        for name, values in off.items():
            value = more.get(name, getattr(self, name, values[0]))
            if value not in values:
                raise ValueError(
                    f"{name}={value!r} with use_vllm: it samples from another distribution than the one that training computes, so that "
                    f"importance ratios are far from 1: set it to {values[0]}, also where a model card advises otherwise"
                )

    def _check_objective(self) -> None:
        names = ["reward", *OBJECTIVES]
        if self.objective not in names and "." not in self.objective:
            raise ValueError(
                f"objective must be {', '.join(map(repr, names))} or the dotted name of a class, got {self.objective!r}"
            )
        if self.max_at_k is not None and self.objective != "max_at_k":
            raise ValueError(f"max_at_k={self.max_at_k} needs objective='max_at_k', got {self.objective!r}")
        if self.objective == "reward":
            return
        assert self.num_generations is not None  # GRPOConfig has a default
        if self.objective == "max_at_k":
            if self.max_at_k is None:
                self.max_at_k = min(8, max(2, self.num_generations // 2))
            if not 2 <= self.max_at_k <= self.num_generations:
                raise ValueError(
                    f"max_at_k must be from 2 to the {self.num_generations} completions of a group (num_generations), got "
                    f"{self.max_at_k}"
                )
        if self.scale_rewards != "group" or self.multi_objective_aggregation != "sum_then_normalize":
            raise ValueError(
                f"objective={self.objective!r} scales each part over its group: leave scale_rewards and "
                "multi_objective_aggregation at their defaults"
            )

    def _check_async_rollouts(self) -> None:
        if not self.async_rollouts:
            if self.max_in_flight is not None:
                raise ValueError(
                    f"max_in_flight={self.max_in_flight} needs async_rollouts: set that to true, or leave it out"
                )
            return
        if self.max_in_flight is None:
            has_server = self.use_vllm and self.vllm_mode == "server"
            batches = 3 if has_server else 2  # one sampled, one executed, one trained on
            self.max_in_flight = batches * self.completions_per_batch
        if self.max_in_flight < 1 or self.max_in_flight % self.completions_per_batch:
            raise ValueError(
                f"max_in_flight={self.max_in_flight} must be a multiple of the {self.completions_per_batch} rollouts of a "
                "generation batch"
            )

    @property
    def completions_per_batch(self) -> int:
        """Completions of a generation batch, over all processes."""
        assert self.generation_batch_size is not None  # GRPOConfig has filled it in
        return self.generation_batch_size

    @property
    def group_size(self) -> int:
        """Completions of a group."""
        assert self.num_generations is not None  # GRPOConfig has a default
        return self.num_generations

    @property
    def micro_steps_per_generation(self) -> int:
        """Number of micro-batches between two generations."""
        assert self.steps_per_generation is not None  # GRPOConfig has filled it in
        return self.steps_per_generation * self.num_iterations

    @property
    def optimizer_steps_per_generation(self) -> int:
        """Smallest number of optimizer steps after which all completions have been trained on and new ones are generated."""
        return self.micro_steps_per_generation // math.gcd(
            self.micro_steps_per_generation, self.gradient_accumulation_steps
        )

    @property
    def keeps_logps(self) -> bool:
        """Whether rollouts may be trained on after the step in which they were sampled."""
        if not self.async_rollouts:
            return False
        assert self.max_in_flight is not None  # filled in above
        return self.max_in_flight > self.completions_per_batch

    @property
    def trl_asks_for_old_logps(self) -> bool:
        """Whether TRL computes the log-probabilities of completions before the first update on them."""
        aligned = self.gradient_accumulation_steps % self.micro_steps_per_generation == 0
        return not aligned or (self.use_vllm and self.vllm_importance_sampling_correction)

    def check_model(self, dropout: float, quantized: bool, attention_dropout: float = 0.0) -> None:
        """Raises `ValueError` if a model with this dropout (the largest, including its adapter's), with this one in its
        attention, which is no module and `disable_dropout` leaves on, or with weights that are quantized when loaded,
        cannot be trained with these arguments."""
        noise = (
            "adds noise to the importance ratios that use_vllm, async_rollouts and several updates on the same completions need: "
            "set"
        )
        # Without stored log-probabilities, they are compared with themselves: all ratios are 1
        if self.keeps_logps or self.trl_asks_for_old_logps:
            if dropout and not self.disable_dropout:
                raise ValueError(f"a dropout of {dropout:g} {noise} lora_dropout to 0, or disable_dropout to true")
            if attention_dropout:
                raise ValueError(
                    f"an attention_dropout of {attention_dropout:g} {noise} model_init_kwargs to {{attention_dropout: 0.0}}"
                )
        if quantized and self.use_vllm:
            raise ValueError(
                "vLLM cannot take quantized weights from training, as TRL would send them: leave out load_in_4bit, "
                "load_in_8bit and quantization_config, or set use_vllm to false"
            )

    @property
    def completions_per_process(self) -> int:
        """Maximum number of completions whose rewards a process computes at once."""
        assert self.steps_per_generation is not None  # GRPOConfig has filled it in
        training = self.per_device_train_batch_size * self.steps_per_generation
        return training if self.eval_strategy == "no" else max(training, self.per_device_eval_batch_size)

    def check_checkpoints(self, max_steps: int, steps_per_epoch: int | None = None) -> None:
        """Raises `ValueError` if a checkpoint would be saved between two generations. `steps_per_epoch` is known when
        training begins: an epoch ends with a generation, because TRL's sampler yields whole generation batches, and
        so its last step may be shorter."""
        if self.save_strategy == "no":
            return
        boundary = self.optimizer_steps_per_generation
        steps_per_epoch = steps_per_epoch or boundary
        if steps_per_epoch % boundary:  # with shorter steps only their ends are sure
            boundary = steps_per_epoch
        for name, steps in self._save_intervals(max_steps).items():
            micro_steps = (
                step % steps_per_epoch * self.gradient_accumulation_steps
                for step in range(steps, min(max(steps, max_steps), math.lcm(steps, steps_per_epoch)) + 1, steps)
            )
            if any(count % self.micro_steps_per_generation for count in micro_steps):
                raise ValueError(
                    f"{name}={steps:g} saves between two generations, where a run cannot be resumed exactly: use a "
                    f"multiple of {boundary} (new completions are generated every {self.micro_steps_per_generation} "
                    f"micro-batches, an optimizer step takes {self.gradient_accumulation_steps})"
                )

    def _save_intervals(self, max_steps: int) -> dict[str, int]:
        """After how many steps each checkpoint is saved, by the option that says so. The last step saves one, too."""
        options = {"max_steps": max_steps} if max_steps > 0 else {}
        if self.save_strategy == "steps" and self.save_steps > 0:
            name, steps = "save_steps", self.save_steps
        elif self.save_strategy == "best" and self.eval_strategy == "steps":  # saved when an evaluation is the best
            assert self.eval_steps is not None  # TrainingArguments has filled it in
            name, steps = "eval_steps", self.eval_steps
        else:
            return options
        if steps < 1:  # a share of all steps; the Trainer rounds it up in the same way
            if max_steps <= 0:
                raise ValueError(f"{name}={steps} is a share of max_steps: set max_steps, or {name} to a whole number")
            steps = math.ceil(max_steps * steps)
        return {name: int(steps)} | options


def check_arguments(
    args: Any,
    is_asynchronous: bool,
    model: Any,
    peft_config: Any = None,
    quantization_config: Any = None,
    **kwargs: Any,
) -> None:
    """Raises an error, before a model is loaded, if these arguments of a trainer do not go together."""
    if not isinstance(args, MLEGRPOConfig):
        raise TypeError(f"args must be an MLEGRPOConfig, got {type(args).__name__}")
    if args.async_rollouts != is_asynchronous:
        name = "AsyncMLEGRPOTrainer" if args.async_rollouts else "MLEGRPOTrainer"
        raise ValueError(f"async_rollouts={args.async_rollouts} is for {name}: train with that class")
    args.check_model(
        dropout=peft_config.lora_dropout if isinstance(peft_config, LoraConfig) else 0.0,
        # Models that are not quantized do not have this attribute
        quantized=quantization_config is not None or getattr(model, "is_loaded_in_4bit", False),
    )


def check_dropout(args: MLEGRPOConfig, model: torch.nn.Module) -> None:
    """Raises `ValueError` if a model has dropout with which these arguments cannot train it."""
    dropouts = [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    config: Any = model.config
    attention_dropout = getattr(config.get_text_config(), "attention_dropout", 0.0)  # not all models'
    args.check_model(max(dropouts, default=0.0), quantized=False, attention_dropout=attention_dropout)
