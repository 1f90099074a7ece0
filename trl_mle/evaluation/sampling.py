"""What a policy is worth: programs sampled from it, executed and graded."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import torch
from rich.progress import track
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, set_seed

from trl_mle.competitions import Competition
from trl_mle.prompts import scratch_prompt
from trl_mle.rewards import Evaluation, MLEReward


@dataclass(frozen=True)
class Summary:
    """
    Sampled programs in figures.

    Args:
        num_samples (`int`):
            Programs sampled.
        num_valid (`int`):
            Those with a valid submission.
        mean_score (`float`, *optional*):
            Mean over the valid ones; `None` without any.
        best_score (`float`, *optional*):
            The best of them.
        mean_duration_s (`float`, *optional*):
            Mean Δt of the programs that ran, in seconds.
    """

    num_samples: int
    num_valid: int
    mean_score: float | None
    best_score: float | None
    mean_duration_s: float | None

    @property
    def valid_rate(self) -> float:
        """Share of the samples with a valid submission."""
        return self.num_valid / self.num_samples if self.num_samples else 0.0


def sample_completions(
    policy: str, prompt: list[dict[str, str]], num_samples: int, seed: int, max_new_tokens: int, batch_size: int = 64
) -> list[str]:
    """
    Samples completions of one prompt, at temperature 1 from the whole distribution, as training does.

    Args:
        policy (`str`):
            Folder or Hub id of the model.
        prompt (`list[dict[str, str]]`):
            Conversation.
        num_samples (`int`):
            Number of completions.
        seed (`int`):
            Seed of the sampling.
        max_new_tokens (`int`):
            Length limit, in tokens.
        batch_size (`int`, *optional*, defaults to `64`):
            Completions generated side by side.

    Returns:
        `list[str]`: The completions.
    """
    tokenizer = AutoTokenizer.from_pretrained(policy)
    model = AutoModelForCausalLM.from_pretrained(policy, dtype="auto").eval()
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    generation_config = GenerationConfig(
        do_sample=True, temperature=1.0, top_p=1.0, top_k=0, max_new_tokens=max_new_tokens,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
    inputs = tokenizer([text], add_special_tokens=False, return_tensors="pt").to(model.device)
    set_seed(seed)
    completions: list[str] = []
    for start in track(range(0, num_samples, batch_size), f"sampling from {policy}", transient=True):
        count = min(batch_size, num_samples - start)
        with torch.inference_mode():
            generation_config.num_return_sequences = count
            tokens = model.generate(**inputs, generation_config=generation_config)
        prompt_length = inputs["input_ids"].shape[1]
        completions += tokenizer.batch_decode(tokens[:, prompt_length:], skip_special_tokens=True)
    return completions


def evaluate_policy(
    policy: str,
    competition: Competition,
    reward: MLEReward,
    num_samples: int,
    seed: int,
    max_new_tokens: int,
    timeout_s: float,
    memory_mb: int,
) -> list[Evaluation]:
    """Samples programs from scratch prompts, executes and grades them; see [`sample_completions`] for the arguments."""
    prompt = scratch_prompt(competition, timeout_s=timeout_s, memory_mb=memory_mb)
    completions = sample_completions(policy, prompt, num_samples, seed, max_new_tokens)
    return reward.evaluate_many([(completion, competition) for completion in completions])


def best_evaluation(evaluations: Sequence[Evaluation], higher_is_better: bool) -> Evaluation | None:
    """The valid evaluation with the best score."""
    sign = 1 if higher_is_better else -1
    valid = [evaluation for evaluation in evaluations if evaluation.valid]
    return max(valid, key=lambda evaluation: sign * evaluation.score.value, default=None)  # type: ignore[union-attr,operator]


def summarize(evaluations: Sequence[Evaluation], higher_is_better: bool) -> Summary:
    """The figures of sampled programs. Failures of our own infrastructure are left out."""
    evaluations = [evaluation for evaluation in evaluations if evaluation.reward is not None]
    scores = [
        evaluation.score.value for evaluation in evaluations if evaluation.score and evaluation.score.value is not None
    ]
    durations = [evaluation.duration_s for evaluation in evaluations if evaluation.duration_s is not None]
    return Summary(
        num_samples=len(evaluations),
        num_valid=len(scores),
        mean_score=fmean(scores) if scores else None,
        best_score=(max if higher_is_better else min)(scores) if scores else None,
        mean_duration_s=fmean(durations) if durations else None,
    )


def save_evaluations(evaluations: Sequence[Evaluation], path: Path) -> None:
    """Writes evaluations as JSON lines."""
    with open(path, "w", encoding="utf-8") as file:
        for evaluation in evaluations:
            file.write(json.dumps(asdict(evaluation)) + "\n")
