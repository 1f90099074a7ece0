"""What a policy is worth: programs sampled from it, executed and graded."""

import json
from collections.abc import Iterable, Sequence
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

    def to_dict(self) -> dict[str, float | None]:
        """The figures by their names, for JSON."""
        return {**asdict(self), "valid_rate": self.valid_rate}


class Policy:
    """
    A model that writes programs, at temperature 1 from the whole distribution, as in training.

    Args:
        name (`str`):
            Folder or Hub id of the model.
        seed (`int`):
            Seed of the sampling.
    """

    def __init__(self, name: str, seed: int):
        self.name = name
        self.tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(name, dtype="auto").eval()
        self.model.to("cuda" if torch.cuda.is_available() else "cpu")
        set_seed(seed)

    def count_tokens(self, prompt: list[dict[str, str]]) -> int:
        """Tokens of a conversation, chat template included."""
        return len(self.tokenizer(self._render(prompt), add_special_tokens=False)["input_ids"])

    def sample(self, prompts: Sequence[list[dict[str, str]]], max_new_tokens: int, batch_size: int = 64) -> list[str]:
        """
        Samples a completion of each prompt.

        Args:
            prompts (`list[list[dict[str, str]]]`):
                Conversations.
            max_new_tokens (`int`):
                Length limit, in tokens.
            batch_size (`int`, *optional*, defaults to `64`):
                Completions generated side by side.

        Returns:
            `list[str]`: The completions.
        """
        generation_config = GenerationConfig(
            do_sample=True, temperature=1.0, top_p=1.0, top_k=0, max_new_tokens=max_new_tokens,
            pad_token_id=self.tokenizer.pad_token_id, bos_token_id=self.tokenizer.bos_token_id,
            eos_token_id=self.tokenizer.eos_token_id,
        )  # fmt: skip
        completions: list[str] = []
        for start in track(range(0, len(prompts), batch_size), f"sampling from {self.name}", transient=True):
            texts = [self._render(prompt) for prompt in prompts[start : start + batch_size]]
            inputs = self.tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
            with torch.inference_mode():
                tokens = self.model.generate(**inputs.to(self.model.device), generation_config=generation_config)
            prompt_length = inputs["input_ids"].shape[1]
            completions += self.tokenizer.batch_decode(tokens[:, prompt_length:], skip_special_tokens=True)
        return completions

    def _render(self, prompt: list[dict[str, str]]) -> str:
        return str(self.tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False))


def evaluate_policy(
    policy: Policy,
    competition: Competition,
    reward: MLEReward,
    num_samples: int,
    max_new_tokens: int,
    timeout_s: float,
    memory_mb: int,
) -> list[Evaluation]:
    """
    Samples programs from scratch, executes and grades them.

    Args:
        policy ([`Policy`]):
            Who writes them.
        competition ([`~trl_mle.competitions.Competition`]):
            What they are to solve.
        reward ([`~trl_mle.rewards.MLEReward`]):
            Executes and grades them.
        num_samples (`int`):
            Number of programs.
        max_new_tokens (`int`):
            Length limit of a completion, in tokens.
        timeout_s (`float`):
            Time limit of a program in seconds, as the prompt states it.
        memory_mb (`int`):
            Memory limit of a program in MB, as the prompt states it.

    Returns:
        `list[Evaluation]`: One for each program.
    """
    prompt = scratch_prompt(competition, timeout_s=timeout_s, memory_mb=memory_mb)
    completions = policy.sample([prompt] * num_samples, max_new_tokens)
    return reward.evaluate_many([(completion, competition) for completion in completions])


def count_executed(evaluations: Iterable[Evaluation]) -> int:
    """How many of the completions held a program, which was executed."""
    return sum(evaluation.source is not None for evaluation in evaluations)


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
