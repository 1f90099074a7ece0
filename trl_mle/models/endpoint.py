"""A language model behind an OpenAI-compatible endpoint."""

import asyncio
import logging
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from trl_mle.models.language_model import Completion, LanguageModelError, Prompt
from trl_mle.prompts.opening import NO_THOUGHTS, opening_of
from trl_mle.showing import shorten, terminal_line


logger = logging.getLogger(__name__)


class EndpointModel:
    """
    A model behind an OpenAI-compatible endpoint (key: `$OPENAI_API_KEY`). Needs `pip install trl-mle[openai]`.

    Args:
        base_url (`str`), model (`str`, *optional*):
            Base URL, such as `http://localhost:8000/v1`, and the model's name there; defaults to the only one served.
        max_concurrency (`int`, *optional*, defaults to `64`):
            Maximum number of concurrent requests.
        deadline_s (`float`, *optional*, defaults to `60.0`), max_retries (`int`, *optional*, defaults to `2`):
            Seconds for a batch, with retries of failed requests. Later answers count as no answer.
        temperature (`float`, *optional*, defaults to `0.0`):
            Sampling temperature; 0 is greedy.

    Raises:
        [`LanguageModelError`]: The endpoint does not answer, or does not serve the model.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        max_concurrency: int = 64,
        deadline_s: float = 60.0,
        max_retries: int = 2,
        temperature: float = 0.0,
    ):
        try:
            import openai
        except ImportError as error:
            raise LanguageModelError("an endpoint needs the openai client: pip install 'trl-mle[openai]'") from error

        self.max_concurrency, self.deadline_s, self.max_retries = max_concurrency, deadline_s, max_retries
        self.temperature = temperature
        self._length_option = "max_tokens"  # refused by some hosted models
        key = os.environ.get("OPENAI_API_KEY", "").strip() or "EMPTY"
        self._server: dict[str, Any] = {"base_url": base_url, "api_key": key}
        try:
            self._address = server_address(base_url)
            with openai.OpenAI(**self._server, timeout=10.0) as client:
                served = [entry.id for entry in client.models.list()]
        # The latter two occur when another kind of server answers with a page
        except (openai.OpenAIError, ValueError, AttributeError) as error:
            raise LanguageModelError(f"the endpoint {base_url} does not answer: {_reason(error)}") from error
        if (model or len(served) != 1) and model not in served:
            raise LanguageModelError(f"{base_url} serves {', '.join(served) or 'nothing'}: name one of these models")
        self.model = model or served[0]
        url = urlsplit(base_url)  # logs and model cards show it, without its password
        self.identity = f"{self.model} at {url._replace(netloc=url.netloc.rpartition('@')[2]).geturl()}"

    def complete(
        self,
        prompts: Sequence[str | Prompt],
        max_tokens: int,
        seeds: Sequence[int | None] | None = None,
        max_time_s: float = math.inf,
    ) -> list[Completion]:
        """
        See [`LanguageModel`]. Prompts are user messages or conversations; if one begins the answer, the endpoint must
        continue it, as vLLM and SGLang do. Requests end after `max_time_s` seconds, or at the deadline.
        """
        limit_s = min(self.deadline_s, max_time_s)
        batch = self._complete_all(prompts, max_tokens, seeds or [None] * len(prompts), limit_s)
        with ThreadPoolExecutor(1) as thread:  # the caller's thread may already run an event loop
            completions = thread.submit(asyncio.run, batch).result()
        if completions and limit_s == self.deadline_s and all(completion.text is None for completion in completions):
            logger.warning("%s answered nothing: %s", self.identity, completions[-1].error)
        return completions

    async def _complete_all(
        self, prompts: Sequence[str | Prompt], max_tokens: int, seeds: Sequence[int | None], limit_s: float
    ) -> list[Completion]:
        import openai

        places = asyncio.Semaphore(self.max_concurrency)
        async with openai.AsyncOpenAI(**self._server, max_retries=self.max_retries, timeout=self.deadline_s) as client:

            async def complete(prompt: str | Prompt, seed: int | None) -> Completion:
                try:
                    async with asyncio.timeout(limit_s), places:
                        return await self._complete(client, prompt, max_tokens, seed)
                except TimeoutError:
                    return Completion(None, error=f"no answer within {limit_s:.0f} s")
                # The client does not check types: a proxy's page, for example, is no chat completion
                except (openai.OpenAIError, ValueError, AttributeError, TypeError, IndexError) as error:
                    return Completion(None, error=_reason(error))

            return await asyncio.gather(*map(complete, prompts, seeds))

    async def _complete(self, client: Any, prompt: str | Prompt, max_tokens: int, seed: int | None) -> Completion:
        from openai import BadRequestError

        opening, length = opening_of(prompt), self._length_option
        begun = {"add_generation_prompt": False, "continue_final_message": True, "chat_template_kwargs": NO_THOUGHTS}
        try:
            answer = await client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt,
                temperature=self.temperature,
                extra_body=begun if opening else None,
                **{length: max_tokens} | ({} if seed is None else {"seed": seed}),
            )
        except BadRequestError as error:
            if length == "max_completion_tokens" or "max_completion_tokens" not in error.message:
                raise
            self._length_option = "max_completion_tokens"
            return await self._complete(client, prompt, max_tokens, seed)
        text = answer.choices[0].message.content  # `None` after a filter or hidden thoughts
        usage = answer.usage.model_dump() if answer.usage else {}
        tokens, prompt_tokens = (usage.get(name) or 0 for name in ("completion_tokens", "prompt_tokens"))
        return Completion("" if text is None else opening + text, tokens, prompt_tokens)

    def check_is_not(self, policy_server: str) -> None:
        """Raises [`LanguageModelError`] if this is the policy's server, whose weights training overwrites."""
        if self._address == server_address(policy_server):
            raise LanguageModelError(f"{self.identity} is the vLLM server of the policy: start another one")


def _reason(error: Exception) -> str:
    return shorten(terminal_line(str(error)), 200)


def server_address(url: str) -> tuple[str, int]:
    """Host and port of a URL, with one name for this machine. Raises `ValueError` if the port is not a number."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    host = parts.hostname or ""
    local = {"localhost", "0.0.0.0", "::1", "::"}  # noqa: S104
    return "127.0.0.1" if host in local else host, parts.port or (443 if parts.scheme == "https" else 80)
