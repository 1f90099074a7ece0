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

ERROR_WIDTH = 200  # characters of a server's error that are shown


class EndpointModel:
    """
    A model behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, a hosted API (key: `$OPENAI_API_KEY`). Needs
    `pip install trl-mle[openai]`.

    Args:
        base_url (`str`):
            Base URL, such as `http://localhost:8000/v1`.
        model (`str`, *optional*):
            The model's name at the endpoint. Defaults to the only model served.
        max_concurrency (`int`, *optional*, defaults to `64`):
            Maximum number of concurrent requests.
        deadline_s (`float`, *optional*, defaults to `60.0`):
            Time limit for a batch, including retries, in seconds. Later answers count as no answer.
        max_retries (`int`, *optional*, defaults to `2`):
            Number of retries of a failed request, with growing pauses.
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

        self.max_concurrency = max_concurrency
        self.deadline_s = deadline_s
        self.max_retries = max_retries
        self.temperature = temperature
        self._server: dict[str, Any] = {"base_url": base_url, "api_key": os.environ.get("OPENAI_API_KEY") or "EMPTY"}
        self._length_option = "max_tokens"  # all servers have it, except for some hosted models
        try:
            self._address = server_address(base_url)
            with openai.OpenAI(**self._server, timeout=10.0) as client:
                served = [entry.id for entry in client.models.list()]
        # The latter two occur when another kind of server answers with a page
        except (openai.OpenAIError, ValueError, AttributeError) as error:
            raise LanguageModelError(f"the endpoint {base_url} does not answer: {_reason(error)}") from error
        if model is None and len(served) != 1:
            raise LanguageModelError(f"{base_url} serves {', '.join(served) or 'nothing'}: name the model to use")
        if model is not None and model not in served:
            raise LanguageModelError(f"{base_url} does not serve {model!r}, but {', '.join(served) or 'nothing'}")
        self.model = model or served[0]
        url = urlsplit(base_url)
        without_password = url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
        self.identity = f"{self.model} at {without_password}"  # logs and model cards show it

    def complete(
        self,
        prompts: Sequence[str | Prompt],
        max_tokens: int,
        seeds: Sequence[int | None] | None = None,
        max_time_s: float = math.inf,
    ) -> list[Completion]:
        """
        See [`LanguageModel`]. Prompts are user messages or conversations. Where one begins the answer, the endpoint must go on
        with it, as vLLM and SGLang do. `seeds` are for endpoints that support them. Requests end after `max_time_s` seconds if
        that is before the deadline.
        """
        if not prompts:
            return []
        limit_s = min(self.deadline_s, max_time_s)
        batch = self._complete_all(prompts, max_tokens, seeds or [None] * len(prompts), limit_s)
        with ThreadPoolExecutor(1) as thread:  # the caller's thread may already run an event loop
            completions = thread.submit(asyncio.run, batch).result()
        if limit_s == self.deadline_s and all(completion.text is None for completion in completions):
            logger.warning("%s answered nothing: %s", self.identity, completions[-1].error)
        return completions

    async def _complete_all(
        self, prompts: Sequence[str | Prompt], max_tokens: int, seeds: Sequence[int | None], limit_s: float
    ) -> list[Completion]:
        import openai

        places = asyncio.Semaphore(self.max_concurrency)
        async with openai.AsyncOpenAI(**self._server, max_retries=self.max_retries, timeout=self.deadline_s) as client:

            async def complete(prompt: str | Prompt, seed: int | None) -> Completion:
                async with places:
                    try:
                        return await self._complete(client, prompt, max_tokens, {} if seed is None else {"seed": seed})
                    # The client does not check types: a proxy's page, for example, is no chat completion
                    except (openai.OpenAIError, ValueError, AttributeError, TypeError, IndexError) as error:
                        return Completion(None, error=_reason(error))

            tasks = [asyncio.create_task(complete(prompt, seed)) for prompt, seed in zip(prompts, seeds, strict=True)]
            done, late = await asyncio.wait(tasks, timeout=limit_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        unanswered = Completion(None, error=f"no answer within {limit_s:.0f} s")
        return [task.result() if task in done else unanswered for task in tasks]

    async def _complete(
        self, client: Any, prompt: str | Prompt, max_tokens: int, decoding: dict[str, Any]
    ) -> Completion:
        from openai import BadRequestError

        opening = opening_of(prompt)
        if opening:
            begun = {"add_generation_prompt": False, "continue_final_message": True}
            decoding = decoding | {"extra_body": {**begun, "chat_template_kwargs": NO_THOUGHTS}}
        option = self._length_option
        try:
            answer = await client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt,
                temperature=self.temperature,
                **{option: max_tokens},
                **decoding,
            )
        except BadRequestError as error:
            if option == "max_completion_tokens" or "max_completion_tokens" not in error.message:
                raise
            self._length_option = "max_completion_tokens"
            return await self._complete(client, prompt, max_tokens, decoding)
        text = answer.choices[0].message.content
        if text is not None:  # a filter or hidden thoughts may have left none
            text = opening + text
        usage = answer.usage.model_dump() if answer.usage else {}
        return Completion(text or "", usage.get("completion_tokens") or 0, usage.get("prompt_tokens") or 0)

    def check_is_not(self, policy_server: str) -> None:
        """
        Raises [`LanguageModelError`] if this endpoint is the server, at this URL, that generates for the policy: training
        overwrites that server's weights.
        """
        if self._address == server_address(policy_server):
            raise LanguageModelError(
                f"the instrumenter's endpoint {self.identity} is the vLLM server of the policy, whose weights change in "
                "training: start a separate server for the instrumenter"
            )


def _reason(error: Exception) -> str:
    return shorten(terminal_line(str(error)), ERROR_WIDTH)


def server_address(url: str) -> tuple[str, int]:
    """Host and port of a URL, with one name for this machine. Raises `ValueError` if the port is not a number."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    host = parts.hostname or ""
    local = {"localhost", "0.0.0.0", "::1", "::"}  # noqa: S104
    return "127.0.0.1" if host in local else host, parts.port or (443 if parts.scheme == "https" else 80)
