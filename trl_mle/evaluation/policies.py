"""Policies that write programs: a model in this process, or behind an endpoint."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from huggingface_hub.errors import HTTPError, StrictDataclassError
from safetensors import SafetensorError

from trl_mle.models import Completion, EndpointModel, Prompt
from trl_mle.prompts import estimate_tokens
from trl_mle.rewards.progress import trained_with


ENDPOINT_DEADLINE_S = 900.0  # for one batch of completions
ENDPOINT_RETRIES = 8  # over some 40 s, or when the endpoint says: hosted ones limit the requests of a minute


class Policy(Protocol):
    """Writes programs at temperature 1 from the full distribution, as in training."""

    identity: str  # identifies the model, including its weights where they are visible

    def count_tokens(self, prompt: Prompt) -> int:
        """Number of tokens of a conversation with its chat template; an upper bound if the tokenizer is unknown."""
        ...

    def sample(
        self, prompts: Sequence[Prompt], max_new_tokens: int, seeds: Sequence[int], max_time_s: float = math.inf
    ) -> list[Completion]:
        """Samples a completion for each conversation, in one batch, which the seeds determine together. Its text
        begins with what its prompt begins it with, and is `None` without an answer. After `max_time_s` seconds, a
        model ends in the middle of its answers, and an endpoint's later ones are missing."""
        ...


def load_policy(name: str) -> Policy:
    """Loads a policy: a folder or Hub id of a model or a LoRA adapter, or the URL of an endpoint, optionally followed
    by `#<model>`. Raises `OSError` or [`~trl_mle.models.LanguageModelError`] if it cannot be used."""
    return EndpointPolicy(name) if _is_url(name) else TransformersPolicy(name)


def completion_length(names: Sequence[str]) -> int:
    """Length limit of completions, in tokens: the largest of the policies' trainings, or else 1024."""
    return max(filter(None, (trained_with(name).get("max_completion_length") for name in names)), default=1024)


def check_policy(name: str) -> None:
    """Raises `OSError` or `ValueError` if [`load_policy`] would not work; loads no weights."""
    if _is_url(name):
        EndpointPolicy(name)
        return
    if "/" not in name and not Path(name).is_dir():  # the Hub would be asked again and again
        raise FileNotFoundError(f"there is no folder {name}; models on the Hub are named owner/name")
    _check_folder(Path(name))
    try:
        from transformers import AutoConfig  # after what is quickly checked: it takes seconds

        AutoConfig.from_pretrained(_base_model(name) or name)
        tokenizer = _load_tokenizer(name)
    except (OSError, ValueError, HTTPError, StrictDataclassError) as error:
        where = "" if Path(name).is_dir() else ", which is not a local folder"
        raise OSError(f"cannot load the policy {name}{where}: {' '.join(str(error).split())}") from error
    _check_tokenizer(name, tokenizer)


def _check_folder(folder: Path) -> None:
    """Raises `OSError` if a folder holds no model."""
    if folder.is_dir() and not any((folder / file).is_file() for file in ("config.json", "adapter_config.json")):
        checkpoints = [path.name for path in folder.glob("checkpoint-*")]
        hint = f": use a checkpoint in it ({', '.join(checkpoints)})" if checkpoints else ""
        raise FileNotFoundError(f"{folder} holds no model{hint}")


def _is_url(name: str) -> bool:
    return name.startswith(("http://", "https://"))


def _base_model(name: str) -> str | None:
    """The base model of an adapter; `None` if the name is not an adapter."""
    from transformers.utils import find_adapter_config_file

    path = find_adapter_config_file(name)
    if path is None:
        return None
    base = json.loads(Path(path).read_text(encoding="utf-8")).get("base_model_name_or_path")
    if not base:
        raise ValueError(f"{path} names no base_model_name_or_path")
    return str(base)


def _load_tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError):  # an adapter may lack a tokenizer
        if (base := _base_model(name)) is None:
            raise
        return AutoTokenizer.from_pretrained(base)


def _check_tokenizer(name: str, tokenizer: Any) -> None:
    """Raises `ValueError` if a tokenizer has no vocabulary, or no chat template."""
    if not tokenizer("Write a program.", add_special_tokens=False)["input_ids"]:
        raise ValueError(f"{name} has no tokenizer: copy the tokenizer's files from the base model")
    if not tokenizer.chat_template:
        raise ValueError(f"{name} has no chat template: use an instruction-tuned model")


class TransformersPolicy:
    """A model in this process, or a LoRA adapter with its base model, on the GPU if there is one. Raises `ValueError`
    if weights are missing."""

    def __init__(self, name: str):
        import torch
        from transformers import AutoModelForCausalLM

        from trl_mle.models.transformers_model import is_bfloat16_faster, weights_digest

        self.tokenizer = _load_tokenizer(name)
        _check_tokenizer(name, self.tokenizer)
        on_gpu = torch.cuda.is_available()
        dtype = "auto" if on_gpu or is_bfloat16_faster() else torch.float32
        try:
            pair: Any = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, output_loading_info=True)
        except SafetensorError as error:
            raise OSError(f"{name}: a file of weights is not whole, or a pointer of Git LFS: {error}") from error
        self.model, loaded = pair
        if missing := sorted(loaded["missing_keys"]):  # transformers fills them with random numbers
            raise ValueError(f"{name} lacks {len(missing)} of the model's weights, such as {missing[0]}")
        self.model.eval()
        self.identity = f"{name} {weights_digest(self.model.state_dict())[:16]}"
        self.model.to("cuda" if on_gpu else "cpu")

    def count_tokens(self, prompt: Prompt) -> int:
        """See [`Policy`]."""
        from trl_mle.models.transformers_model import tokenize_prompts

        return len(tokenize_prompts(self.tokenizer, [prompt])[0])

    def sample(
        self, prompts: Sequence[Prompt], max_new_tokens: int, seeds: Sequence[int], max_time_s: float = math.inf
    ) -> list[Completion]:
        """See [`Policy`]."""
        from trl_mle.models.transformers_model import generate

        if not prompts:
            return []
        one_batch: Any = {"batch_size": len(prompts), "seed": seeds[0], "max_time_s": max_time_s}
        return generate(self.model, self.tokenizer, prompts, max_new_tokens, **one_batch)


class EndpointPolicy:
    """A model behind an OpenAI-compatible endpoint (key: `$OPENAI_API_KEY`): its base URL, followed by `#<model>`
    unless it serves exactly one."""

    def __init__(self, url: str):
        base_url, _, model = url.partition("#")
        options: Any = {"deadline_s": ENDPOINT_DEADLINE_S, "max_retries": ENDPOINT_RETRIES, "temperature": 1.0}
        self.endpoint = EndpointModel(base_url, model or None, **options)
        self.identity = self.endpoint.identity

    def count_tokens(self, prompt: Prompt) -> int:
        """See [`Policy`]."""
        return sum(estimate_tokens(message["content"]) for message in prompt)

    def sample(
        self, prompts: Sequence[Prompt], max_new_tokens: int, seeds: Sequence[int], max_time_s: float = math.inf
    ) -> list[Completion]:
        """See [`Policy`]."""
        return self.endpoint.complete(prompts, max_new_tokens, seeds, max_time_s)
