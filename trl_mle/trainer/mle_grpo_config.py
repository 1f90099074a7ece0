import math
import warnings
from dataclasses import dataclass

from transformers.utils import is_torch_bf16_gpu_available
from trl import GRPOConfig

from trl_mle.execution.options import option
from trl_mle.trainer.gradient.objectives import OBJECTIVES


# TRL uses the former; older versions of transformers, too, need the latter
OLD_NAMES = r"`(is_gradient_checkpointing|gradient_checkpointing\w*|past_key_values)` is deprecated"
warnings.filterwarnings("ignore", OLD_NAMES, FutureWarning)


@dataclass
class MLEGRPOConfig(GRPOConfig):
    r"""
    Configuration class for the [`MLEGRPOTrainer`], the trainer of https://huggingface.co/papers/2509.01684.

    It inherits every parameter from [`~trl.GRPOConfig`] and adds those below. TRL does not save completions that are
    still waiting to be trained on, so `save_steps` and `max_steps` must be multiples of the steps per generation: a
    run can then be resumed exactly. `bf16` defaults to `True` only where the GPU has it.

    Parameters:
        > Parameters that control the prompts

        max_prompt_length (`int`, *optional*, defaults to `1024`):
            Maximum length of a prompt in tokens, which is refused if it is longer. `None` allows any length.
        begin_program (`bool`, *optional*):
            Whether the first lines of a program begin each answer. `False` for a short plan first, as in the paper.
            Defaults to the value of the model's own training if its folder has that, or else to `True`.
        ideas (`str`, *optional*):
            What groups are asked to fit, in turn: `"default"`, a YAML file, or `"none"`. See
            [`~trl_mle.prompts.Ideas`]. Defaults to the value of the model's own training, or else to `"none"`.
        improve_probability (`float`, *optional*, defaults to `0.5`):
            Probability that a group improves an earlier valid solution, or with `ideas` varies its idea.
        pool_size (`int`, *optional*, defaults to `64`):
            Number of solutions kept per competition, see [`~trl_mle.solutions.SolutionPool`].
        show_test_score (`bool`, *optional*, defaults to `False`):
            Whether an improve prompt states the solution's score on the hidden answers.

        > Parameters that control the objective

        objective (`str`, *optional*, defaults to `"reward"`):
            What to maximise: `"reward"` as in the paper, `"mean_rank"`, `"max_at_k"`, or the dotted name of an
            [`~trl_mle.trainer.gradient.objectives.Objective`]. All but the first need an
            [`~trl_mle.rewards.MLEReward`], or a first reward function that logs the column `quality`.
        max_at_k (`int`, *optional*):
            k of `"max_at_k"`, from 2 to `num_generations`. Defaults to half of them, at most 8.
        duration_weighting (`str`, *optional*):
            How to weight an advantage by its program's Δt: `"linear"` by Δt / mean Δt of the competition, the default
            with the objective `"reward"`, or `"none"`, the default with the others.
        duration_weight_low (`float`, *optional*), duration_weight_high (`float`, *optional*):
            Smallest weight, at most 1, and largest weight, at least 1.
        stop_when_stale (`bool`, *optional*, defaults to `False`):
            Whether training ends when no program has had a new score for 8 steps.

        > Parameters that control speed

        async_rollouts (`bool`, *optional*, defaults to `False`):
            Whether to train on the groups that finished first, while slower programs keep running.
        max_in_flight (`int`, *optional*):
            Maximum number of rollouts that are sampled but not yet trained on; a multiple of
            `generation_batch_size`. Defaults to two batches, or to three with a vLLM server.
        share_prompts (`bool`, *optional*, defaults to `False`):
            Whether a step computes a prompt once for its completions. Needs `gradient_checkpointing=False`.
        vllm_request_timeout_s (`float`, *optional*, defaults to `1800.0`):
            Timeout of a request to a vLLM server, in seconds.

        > Parameters whose default differs from [`~trl.GRPOConfig`]'s

        num_completions_to_print (`int`, *optional*, defaults to `0`):
            Number of programs per step that `log_completions` prints; `None` prints all.
    """

    max_prompt_length: int | None = option(1024, "Maximum length of a prompt in tokens. `None` for any length.")
    improve_probability: float = option(0.5, "Probability that a group improves an earlier solution.")
    pool_size: int = option(64, "Number of solutions kept per competition (fewer of more than 32).")
    show_test_score: bool = option(False, "Whether improve prompts state the score on the hidden answers.")
    objective: str = option("reward", "`reward`, `mean_rank`, `max_at_k`, or the dotted name of a class of your own.")
    max_at_k: int | None = option(None, "k of `max_at_k`. `None` for half of `num_generations`, at most 8.")
    begin_program: bool | None = option(
        None, "Whether the first lines of a program begin each answer. `None`: as in the model's training, or true."
    )
    ideas: str | None = option(
        None, "Ideas that prompts ask for in turn: `none`, `default`, or a YAML file. `None`: as in its training."
    )
    stop_when_stale: bool = option(False, "Whether training ends when no program has had a new score for 8 steps.")
    duration_weighting: str | None = option(
        None, "`linear` (Δt / mean Δt) or `none`. `None` for the objective's default.", choices=["linear", "none"]
    )
    duration_weight_low: float | None = option(None, "Smallest duration weight, at most 1.")
    duration_weight_high: float | None = option(None, "Largest duration weight, at least 1.")
    async_rollouts: bool = option(False, "Whether to train on the groups that finish first, while others run.")
    max_in_flight: int | None = option(None, "Maximum number of rollouts sampled but not yet trained on.")
    share_prompts: bool = option(False, "Whether to compute a prompt once for its completions in a micro-batch.")
    vllm_request_timeout_s: float = option(1800.0, "Timeout of a request to a vLLM server, in seconds.")
    num_completions_to_print: int | None = option(0, "Programs per step that `log_completions` prints; null for all.")

    def __post_init__(self) -> None:
        if self.bf16 is None and (self.use_cpu or not is_torch_bf16_gpu_available()):
            self.bf16 = False  # TRL's default needs a GPU
        super().__post_init__()
        if not 0 <= self.improve_probability <= 1:
            raise ValueError(f"improve_probability must be between 0 and 1, got {self.improve_probability}")
        if self.share_prompts and self.gradient_checkpointing:
            raise ValueError("share_prompts keeps what gradient_checkpointing drops: set that to false")
        self._check_objective()
        self._check_duration_weighting()
        self._check_async_rollouts()
        self._check_checkpoints()

    def _check_objective(self) -> None:
        names = ["reward", *OBJECTIVES]
        if self.objective not in names and "." not in self.objective:
            raise ValueError(f"objective must be one of {names} or the dotted name of a class, got {self.objective!r}")
        if self.objective == "max_at_k":
            size = self.group_size
            self.max_at_k = min(8, max(2, size // 2)) if self.max_at_k is None else self.max_at_k
            if not 2 <= self.max_at_k <= size:
                raise ValueError(f"max_at_k must be from 2 to num_generations={size}, got {self.max_at_k}")
        elif self.max_at_k is not None:
            raise ValueError(f"max_at_k={self.max_at_k} needs objective='max_at_k', got {self.objective!r}")
        stock = self.scale_rewards == "group" and self.multi_objective_aggregation == "sum_then_normalize"
        if self.objective != "reward" and not stock:
            options = "scale_rewards and multi_objective_aggregation"
            raise ValueError(f"objective={self.objective!r} needs the defaults of {options}")

    def _check_duration_weighting(self) -> None:
        if self.duration_weighting is None:
            self.duration_weighting = "linear" if self.objective == "reward" else "none"
        low, high = self.duration_weight_low, self.duration_weight_high
        if not 0 <= (0 if low is None else low) <= 1 <= (1 if high is None else high):
            raise ValueError(f"duration_weight_low to duration_weight_high must include 1, got {low} and {high}")
        if self.duration_weighting == "none" and (low, high) != (None, None):
            raise ValueError("duration_weight_low and duration_weight_high need duration_weighting='linear'")

    def _check_async_rollouts(self) -> None:
        if not self.async_rollouts:
            if self.max_in_flight is not None:
                raise ValueError(f"max_in_flight={self.max_in_flight} needs async_rollouts")
            return
        batch = self.completions_per_batch
        if self.max_in_flight is None:
            has_server = self.use_vllm and self.vllm_mode == "server"
            self.max_in_flight = (3 if has_server else 2) * batch  # one sampled, one executed, one trained on
        if self.max_in_flight < 1 or self.max_in_flight % batch:
            raise ValueError(f"max_in_flight={self.max_in_flight} must be a multiple of generation_batch_size={batch}")

    def _check_checkpoints(self) -> None:
        """Refuses checkpoints between two generations, from which a run could not resume exactly."""
        intervals = {"max_steps": float(self.max_steps)}  # the last step saves one, too
        if self.save_strategy == "steps":
            intervals["save_steps"] = self.save_steps
        elif self.save_strategy == "best" and self.eval_strategy == "steps":
            intervals["eval_steps"] = self.eval_steps or 0.0
        elif self.save_strategy == "no":
            return
        boundary = self.optimizer_steps_per_generation
        for name, steps in intervals.items():
            if 0 < steps < 1:  # a share of all steps, which the Trainer rounds up
                steps = math.ceil(self.max_steps * steps)
            if steps > 0 and steps % boundary:
                raise ValueError(f"{name}={steps:g} saves between two generations: use a multiple of {boundary}")

    @property
    def begins_answers(self) -> bool:
        return self.begin_program is not False  # `None`, the default, until a trainer knows its model

    @property
    def completions_per_batch(self) -> int:
        assert self.generation_batch_size is not None  # GRPOConfig has filled it in
        return self.generation_batch_size

    @property
    def group_size(self) -> int:
        assert self.num_generations is not None  # GRPOConfig has a default
        return self.num_generations

    @property
    def micro_steps_per_generation(self) -> int:
        assert self.steps_per_generation is not None  # GRPOConfig has filled it in
        return self.steps_per_generation * self.num_iterations

    @property
    def optimizer_steps_per_generation(self) -> int:
        """Optimizer steps after which all completions have been trained on and new ones are generated."""
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

    @property
    def completions_per_process(self) -> int:
        """Maximum number of completions whose rewards a process computes at once."""
        assert self.steps_per_generation is not None  # GRPOConfig has filled it in
        training = self.per_device_train_batch_size * self.steps_per_generation
        return training if self.eval_strategy == "no" else max(training, self.per_device_eval_batch_size)
