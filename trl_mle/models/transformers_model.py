"""Language models in this process, and generation with them."""

import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, set_seed

from trl_mle.models.language_model import Completion, LanguageModelError, Prompt
from trl_mle.models.shared_prompts import shared_prefill
from trl_mle.prompts import NO_THOUGHTS, after_thoughts, opening_of, plain_messages, special_tokens_of, without_opening


class TransformersModel:
    """
    A separate model in this process.

    Args:
        name (`str`), device (`str` or `torch.device`, *optional*, defaults to `"cpu"`):
            Folder or Hub id of a chat model, and the device to run on.
        batch_size (`int`, *optional*, defaults to `16`):
            Prompts per batch.

    Raises:
        [`LanguageModelError`]: It is not a chat model.
        `OSError`: The model cannot be loaded.
    """

    def __init__(self, name: str, device: Any = "cpu", batch_size: int = 16):
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        if self.tokenizer.chat_template is None:
            raise LanguageModelError(f"{name} has no chat template: use an instruction-tuned model")
        self.model = AutoModelForCausalLM.from_pretrained(name, dtype="auto").to(device).eval().requires_grad_(False)
        self.batch_size = batch_size
        self.identity = name

    def complete(self, prompts: Sequence[str], max_tokens: int) -> list[Completion]:
        """See [`LanguageModel`]."""
        return generate(
            self.model, self.tokenizer, prompts, max_tokens, self.batch_size, chat_template_kwargs=NO_THOUGHTS
        )


@torch.no_grad()
def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str | Prompt],
    max_tokens: int,
    batch_size: int = 16,
    seed: int | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    max_time_s: float = math.inf,
) -> list[Completion]:
    """
    Answers prompts. Without a seed, decodes greedily and uses no random generator; with a seed, samples from the full
    distribution, as in training.

    Args:
        model ([`~transformers.PreTrainedModel`]), tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            The model, and its tokenizer with a chat template.
        prompts (`Sequence[str | list[dict[str, str]]]`):
            User messages or conversations.
        max_tokens (`int`), max_time_s (`float`, *optional*):
            Tokens of an answer, and seconds of a batch, after which answers end where they are.
        batch_size (`int`, *optional*, defaults to `16`), seed (`int`, *optional*):
            Prompts per batch; with these and their order, the seed determines the samples.
        chat_template_kwargs (`dict`, *optional*):
            Arguments of the chat template.
    """
    conversations = [
        [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt for prompt in prompts
    ]
    order = list(range(len(conversations)))
    if seed is None:
        # Batch prompts of similar length, so that little is padded; sampling depends on the order
        order.sort(key=lambda i: sum(len(message["content"]) for message in conversations[i]))
    else:
        set_seed(seed)
    config = GenerationConfig(
        max_new_tokens=max_tokens,
        max_time=max_time_s if max_time_s < math.inf else None,
        do_sample=seed is not None,
        **({} if seed is None else {"top_k": 0}),  # the whole distribution, as in TRL
        eos_token_id=end_tokens(model, tokenizer),
        pad_token_id=0,  # any: it is masked before a prompt, and ignored behind an answer
    )
    completions: dict[int, Completion] = {}
    for start in range(0, len(order), batch_size):
        chunk = order[start : start + batch_size]
        rows = tokenize_prompts(tokenizer, [conversations[i] for i in chunk], chat_template_kwargs)
        ids = _padded(rows, 0).to(model.device)
        mask = _padded([[1] * len(row) for row in rows], 0).to(model.device)
        # Under ZeRO-3, the weights are gathered here, so processes with fewer or no prompts need not stay in step
        with without_defaults(model), shared_prefill(model.get_decoder()):
            outputs = model.generate(input_ids=ids, attention_mask=mask, generation_config=config, synced_gpus=False)
        for i, row, output in zip(chunk, rows, outputs[:, ids.shape[1] :].tolist(), strict=True):
            # What follows the first end is padding
            length = next((n for n, token in enumerate(output, 1) if token in config.eos_token_id), len(output))
            text = answer_text(tokenizer, conversations[i], row, output[:length])
            completions[i] = Completion(text, length, len(row))
    return [completions[i] for i in range(len(conversations))]


def _padded(rows: list[list[int]], value: int) -> torch.Tensor:
    return pad_sequence(list(map(torch.tensor, rows)), batch_first=True, padding_value=value, padding_side="left")


@cache
def is_bfloat16_faster() -> bool:
    """Whether this CPU multiplies matrices faster in bfloat16 than in float32; without instructions, it is slower."""

    def seconds(dtype: torch.dtype) -> float:
        matrix, times = torch.ones(512, 512, dtype=dtype), []
        for _ in range(5):
            began = time.perf_counter()
            matrix @ matrix
            times.append(time.perf_counter() - began)
        return min(times)

    return seconds(torch.bfloat16) < seconds(torch.float32)


@contextmanager
def without_defaults(model: Any) -> Iterator[None]:
    """
    Context in which a model ignores its folder's `generation_config.json`, except for special tokens: training and
    comparisons need the full distribution, whatever its `top_p`.
    """
    settings = model.generation_config  # changed in place, because an adapter's model refers to the same object
    kept = vars(settings).copy()
    for name in settings.to_diff_dict():
        if not name.endswith("token_id"):
            setattr(settings, name, None)
    try:
        yield
    finally:
        vars(settings).update(kept)


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """All tokens that end an answer, as in TRL: the tokenizer's and the model's, such as the end of a turn."""
    ends = model.generation_config.eos_token_id
    ends = [ends] if isinstance(ends, int) else ends or []
    return [token for token in dict.fromkeys([tokenizer.eos_token_id, *ends]) if token is not None]


def render_prompt(tokenizer: Any, prompt: Prompt, chat_template_kwargs: Mapping[str, Any] | None = None) -> str:
    """
    Renders a conversation, without special tokens in messages, up to where a model goes on: the start of its answer,
    or what the answer begins with; then it does not think first.
    """
    plain = plain_messages(prompt, special_tokens_of(tokenizer))
    kwargs = dict(chat_template_kwargs or {}) | (NO_THOUGHTS if opening_of(plain) else {})
    asked = tokenizer.apply_chat_template(without_opening(plain), add_generation_prompt=True, tokenize=False, **kwargs)
    return asked + after_thoughts(opening_of(plain), asked)


def tokenize_prompts(
    tokenizer: Any, prompts: Sequence[Prompt], chat_template_kwargs: Mapping[str, Any] | None = None
) -> list[list[int]]:
    """The tokens of conversations, each tokenized whole: SentencePiece puts a space before what it is given."""
    texts = [render_prompt(tokenizer, prompt, chat_template_kwargs) for prompt in prompts]
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def answer_text(tokenizer: Any, prompt: Prompt, prompt_ids: list[int], completion_ids: list[int]) -> str:
    """The text of an answer and its beginning, decoded after the prompt: SentencePiece drops a first space."""
    opening = opening_of(prompt)
    if not opening:
        return tokenizer.decode(completion_ids, skip_special_tokens=True)
    before, whole = (
        tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        for ids in (prompt_ids, prompt_ids + completion_ids)
    )
    return opening + whole[len(before) :]


def weights_digest(weights: dict[str, torch.Tensor]) -> str:
    """SHA-256 over names, types, shapes and values of weights."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()
