"""Where the frozen language model of [`LmInstrumenter`] runs: behind an endpoint, in this process, or as the base of the
policy that is trained."""

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import torch

from trl_mle.instrumentation.lm_instrumenter import Completion


if TYPE_CHECKING:
    from trl_mle.trainer import MLEGRPOTrainer


logger = logging.getLogger(__name__)

PAUSE_S = 300.0  # how long an endpoint that answered nothing is left alone


class LanguageModelError(ValueError):
    """The instrumenting model cannot be used as it is configured: the user's to mend."""


class EndpointModel:
    """
    A model behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, a hosted API. Needs `pip install trl-mle[openai]`.

    Args:
        base_url (`str`):
            Such as `http://localhost:8000/v1`.
        model (`str`, *optional*):
            Its name there. Defaults to the only model that is served.
        api_key (`str`, *optional*):
            Key, for a hosted API. Defaults to `$OPENAI_API_KEY`.
        max_concurrency (`int`, *optional*, defaults to `64`):
            Requests at a time.
        deadline_s (`float`, *optional*, defaults to `60.0`):
            Seconds for a batch, retries included. What is not answered then counts as no answer. An endpoint that
            answers nothing at all is not asked again for five minutes.
        max_retries (`int`, *optional*, defaults to `2`):
            Further attempts of a request that fails, with growing pauses.

    Raises:
        [`LanguageModelError`]: The endpoint does not answer, or does not serve the model.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        api_key: str | None = None,
        max_concurrency: int = 64,
        deadline_s: float = 60.0,
        max_retries: int = 2,
    ):
        try:
            import openai
        except ImportError as error:
            raise LanguageModelError("an endpoint needs the openai client: pip install 'trl-mle[openai]'") from error

        self.base_url = base_url
        self.max_concurrency = max_concurrency
        self.deadline_s = deadline_s
        key = api_key or os.environ.get("OPENAI_API_KEY") or "EMPTY"
        self._options: dict[str, Any] = {"base_url": base_url, "api_key": key, "max_retries": max_retries}
        self._asked_again_at = 0.0
        self._constrained = True  # until the endpoint proves to know no schemas
        if not _is_http(base_url):
            raise LanguageModelError(
                f"the instrumenter's endpoint {base_url!r} is no URL like http://localhost:8000/v1"
            )
        try:
            with openai.OpenAI(**self._options, timeout=10.0) as client:
                served = [entry.id for entry in client.models.list()]
        # The latter two where the page of another kind of server comes back
        except (openai.OpenAIError, ValueError, AttributeError) as error:
            raise LanguageModelError(f"the instrumenter's endpoint {base_url} does not answer: {error}") from error
        if model is None and len(served) != 1:
            raise LanguageModelError(f"{base_url} serves {', '.join(served) or 'nothing'}: name the model to use")
        if model is not None and model not in served:
            raise LanguageModelError(f"{base_url} does not serve {model!r}, but {', '.join(served) or 'nothing'}")
        self.model = model or served[0]
        self.identity = f"{self.model} at {base_url}"

    def complete(self, prompts: Sequence[str], max_tokens: int, schema: dict | None = None) -> list[Completion]:
        """See [`LanguageModel`]."""
        if not prompts or time.monotonic() < self._asked_again_at:
            return [Completion(None) for _ in prompts]
        with ThreadPoolExecutor(1) as thread:  # the caller's thread may have an event loop of its own
            completions, alive = thread.submit(asyncio.run, self._complete(prompts, max_tokens, schema)).result()
        if not alive:
            logger.warning("%s answered nothing; it is asked again in %.0f s", self.identity, PAUSE_S)
            self._asked_again_at = time.monotonic() + PAUSE_S
        return completions

    async def _complete(
        self, prompts: Sequence[str], max_tokens: int, schema: dict | None
    ) -> tuple[list[Completion], bool]:
        """The answers, and whether any request was answered, if only by the refusal of its prompt."""
        import openai

        alive = False
        places = asyncio.Semaphore(self.max_concurrency)
        async with openai.AsyncOpenAI(**self._options, timeout=self.deadline_s) as client:

            async def ask(prompt: str) -> Completion:
                nonlocal alive
                async with places:
                    try:
                        completion = await self._ask(client, prompt, max_tokens, schema)
                    except openai.BadRequestError:  # of this prompt: it is too long, say
                        completion = Completion(None)
                    except (openai.OpenAIError, ValueError):
                        return Completion(None)
                alive = True
                return completion

            tasks = [asyncio.create_task(ask(prompt)) for prompt in prompts]
            _, late = await asyncio.wait(tasks, timeout=self.deadline_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        return [Completion(None) if task in late else task.result() for task in tasks], alive

    async def _ask(self, client: Any, prompt: str, max_tokens: int, schema: dict | None) -> Completion:
        import openai

        if schema is None or not self._constrained:
            return await self._chat(client, prompt, max_tokens)
        form = {"type": "json_schema", "json_schema": {"name": "lines", "schema": schema}}
        try:
            return await self._chat(client, prompt, max_tokens, response_format=form)
        except openai.BadRequestError:  # either the schema is refused or the prompt
            completion = await self._chat(client, prompt, max_tokens)
            self._constrained = False
            return completion

    async def _chat(self, client: Any, prompt: str, max_tokens: int, **decoding: Any) -> Completion:
        from openai.types.chat import ChatCompletion

        answer = await client.chat.completions.create(
            model=self.model,
            messages=[{"role": "user", "content": prompt}],
            max_tokens=max_tokens,
            temperature=0.0,
            **decoding,
        )
        if not isinstance(answer, ChatCompletion) or not answer.choices:  # the page of a proxy, say
            raise ValueError(f"{self.base_url} did not answer with a chat completion")
        return Completion(answer.choices[0].message.content, answer.usage.completion_tokens if answer.usage else 0)

    def check_frozen(self) -> None:
        """Nothing: the weights of a server cannot be seen."""

    def check_is_not(self, policy_server: str) -> None:
        """
        Raises [`LanguageModelError`] if this endpoint is the server that generates for the policy: TRL overwrites that
        server's weights as training goes on.

        Args:
            policy_server (`str`):
                Its URL.
        """
        if _address(self.base_url) == _address(policy_server):
            raise LanguageModelError(
                f"the instrumenter's endpoint {self.base_url} is the vLLM server of the policy, whose weights change in "
                "training: give the instrumenter a server of its own"
            )


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url if "//" in url else f"//{url}")
    host = parts.hostname or ""
    local = {"localhost", "0.0.0.0", "::1", "::"}  # noqa: S104
    return "127.0.0.1" if host in local else host, parts.port or (443 if parts.scheme == "https" else 80)


class TransformersModel:
    """
    A model of its own in this process.

    Args:
        name (`str`):
            Folder or Hub id of a chat model.
        device (`str` or `torch.device`, *optional*, defaults to `"cpu"`):
            Where it runs.
        dtype (`str`, *optional*, defaults to `"auto"`):
            Of its weights.
        batch_size (`int`, *optional*, defaults to `16`):
            Prompts at a time.

    Raises:
        [`LanguageModelError`]: It is no chat model.
        `OSError`: It cannot be loaded.
    """

    def __init__(self, name: str, device: Any = "cpu", dtype: str = "auto", batch_size: int = 16):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(name)
        if self.tokenizer.chat_template is None:
            raise LanguageModelError(
                f"the instrumenting model {name} has no chat template: take an instruction-tuned one"
            )
        self.model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype).to(device).eval().requires_grad_(False)
        self.batch_size = batch_size
        self.identity = name
        self.digest = weights_digest(self.model.state_dict())

    def complete(self, prompts: Sequence[str], max_tokens: int, schema: dict | None = None) -> list[Completion]:
        """See [`LanguageModel`]. The schema is not used."""
        return generate(self.model, self.tokenizer, prompts, max_tokens, self.batch_size)

    def check_frozen(self) -> None:
        """Raises [`LanguageModelError`] if the weights are not those that were loaded."""
        if weights_digest(self.model.state_dict()) != self.digest:
            raise LanguageModelError(f"the weights of the instrumenting model {self.identity} have changed")


class PolicyBaseModel:
    """
    The original model of the policy that a trainer trains: under a LoRA policy its base, with the adapter disabled, which
    takes no further memory; with `beta > 0` the reference model.

    Every process must call `complete` as often as the others, from its main thread: weights may be gathered for it. The
    trainer is made after the reward that asks the model, so it is bound later.
    """

    identity = "the policy's base model"

    def __init__(self) -> None:
        self._trainer: MLEGRPOTrainer | None = None
        self.digests: dict[str, str] | None = None

    def bind(self, trainer: "MLEGRPOTrainer", mode: str = "lines") -> None:
        """
        Takes the trainer whose policy's base model answers.

        Args:
            trainer ([`~trl_mle.trainer.MLEGRPOTrainer`]):
                The trainer, before it trains.
            mode (`str`, *optional*, defaults to `"lines"`):
                What the model is asked for, see [`LmInstrumenter`].

        Raises:
            [`LanguageModelError`]: Its policy has no base model, or none that could rewrite programs.
        """
        trainer.check_base_model()
        if mode == "rewrite" and trainer.is_zero3:
            raise LanguageModelError(
                "under ZeRO-3 all processes would wait, with the whole weights gathered, for the longest rewritten program: "
                "take mode 'lines', or give the instrumenter an endpoint or a model"
            )
        self._trainer = trainer

    def complete(self, prompts: Sequence[str], max_tokens: int, schema: dict | None = None) -> list[Completion]:
        """See [`LanguageModel`]. The schema is not used."""
        if self._trainer is None:
            raise LanguageModelError("the policy's base model answers only in training: bind the trainer")
        if self.digests is None:  # now, because what prepares the model for training may cast and split its weights
            self.digests = self._digest_weights()
        return self._trainer.complete_with_base_model(prompts, max_tokens)

    def check_frozen(self) -> None:
        """
        Raises [`LanguageModelError`] if weights have changed since the first answer. Only warns where an adapter is merged
        into the base for vLLM and taken out again: there they drift by rounding.
        """
        if self._trainer is None or self.digests is None:  # it has never been asked
            return
        now = self._digest_weights()
        changed = [name for name, digest in self.digests.items() if now[name] != digest]
        if not changed:
            return
        message = f"{len(changed)} of {len(now)} weights of the policy's base model have changed in training, {changed[0]} among them"
        if not self._trainer.args.use_vllm:
            raise LanguageModelError(message)
        logger.warning(message)

    def _digest_weights(self) -> dict[str, str]:
        assert self._trainer is not None
        return {name: weights_digest({name: weight}) for name, weight in self._trainer.base_weights().items()}


@torch.no_grad()
def generate(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    max_tokens: int,
    batch_size: int = 16,
) -> list[Completion]:
    """
    Answers prompts greedily, without touching a random generator.

    Args:
        model ([`~transformers.PreTrainedModel`]):
            The model.
        tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            Its tokenizer, with a chat template.
        prompts (`Sequence[str]`):
            User messages.
        max_tokens (`int`):
            Longest answer.
        batch_size (`int`, *optional*, defaults to `16`):
            Prompts at a time.

    Returns:
        `list[Completion]`: One for each prompt.
    """
    from transformers import GenerationConfig

    config = GenerationConfig(
        max_new_tokens=max_tokens,
        do_sample=False,
        repetition_penalty=1.0,  # a chat model's own may forbid what an answer must repeat
        eos_token_id=model.generation_config.eos_token_id or tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id,
    )
    completions = []
    # Of like length together, so that little is padded.
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for start in range(0, len(order), batch_size):
        chunk = [[{"role": "user", "content": prompts[i]}] for i in order[start : start + batch_size]]
        batch = tokenizer.apply_chat_template(
            chunk,
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
            padding=True,
            tokenizer_kwargs={"padding_side": "left"},  # most tokenizers pad on the right
        ).to(model.device)
        # The weights are whole here: processes with fewer prompts, or none, need not keep step
        answers = model.generate(**batch, generation_config=config, synced_gpus=False)
        answers = answers[:, batch["input_ids"].shape[1] :]
        for answer in answers:
            length = int((answer != config.pad_token_id).sum())
            completions.append(Completion(tokenizer.decode(answer, skip_special_tokens=True), length))
    places = {index: place for place, index in enumerate(order)}
    return [completions[places[index]] for index in range(len(prompts))]


def weights_digest(weights: dict[str, torch.Tensor]) -> str:
    """SHA-256 over names, types, shapes and values of weights."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()
