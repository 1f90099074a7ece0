"""A language model behind an OpenAI-compatible endpoint."""

import asyncio
import logging
import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from trl_mle.models.language_model import Completion, LanguageModelError, Prompt
from trl_mle.prompts.opening import NO_THOUGHTS, opening_of
from trl_mle.showing import shorten, terminal_line


logger = logging.getLogger(__name__)

PAUSE_S = 300.0  # pause after an endpoint answered nothing
NO_KEY = "EMPTY"  # for servers that need none
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
            Time limit for a batch, including retries, in seconds. Later answers count as no answer. An endpoint that
            answers nothing at all is not used for five minutes.
        max_retries (`int`, *optional*, defaults to `2`):
            Number of retries of a failed request, with growing pauses. Whether the endpoint answers at all is tried no more
            than three times.
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

        self.base_url = base_url
        self.max_concurrency = max_concurrency
        self.deadline_s = deadline_s
        self.temperature = temperature
        key = os.environ.get("OPENAI_API_KEY") or NO_KEY
        self.max_retries = max_retries
        self._options: dict[str, Any] = {"base_url": base_url, "api_key": key}
        self._length_option = "max_tokens"  # which all servers know, except for some hosted models
        self._has_answered = False
        self._asked_again_at = 0.0
        self._last_error = ""
        if not _is_http(base_url):
            raise LanguageModelError(f"the endpoint {base_url!r} is not a URL like http://localhost:8000/v1")
        try:
            with openai.OpenAI(**self._options, timeout=10.0) as client:
                served = [entry.id for entry in client.models.list()]
        # The latter two occur when another kind of server answers with a page
        except (openai.OpenAIError, ValueError, AttributeError) as error:
            raise LanguageModelError(f"the endpoint {base_url} does not answer: {self._reason(error)}") from error
        if model is None and len(served) != 1:
            raise LanguageModelError(f"{base_url} serves {', '.join(served) or 'nothing'}: name the model to use")
        if model is not None and model not in served:
            raise LanguageModelError(f"{base_url} does not serve {model!r}, but {', '.join(served) or 'nothing'}")
        self.model = model or served[0]
        self.identity = f"{self.model} at {_without_password(base_url)}"  # logs and model cards show it

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

        Raises:
            [`LanguageModelError`]: The endpoint refuses the API key, and has not answered anything before.
        """
        if not prompts or time.monotonic() < self._asked_again_at:
            return [Completion(None, error=self._last_error) for _ in prompts]
        if seeds is None:
            seeds = [None] * len(prompts)
        with ThreadPoolExecutor(1) as thread:  # the caller's thread may already run an event loop
            completions, alive = thread.submit(
                asyncio.run, self._complete(prompts, max_tokens, seeds, max_time_s)
            ).result()
        if not alive:
            self._last_error = completions[-1].error
            logger.warning(
                "%s answered nothing; it is used again in %.0f s; the last error was: %s",
                self.identity,
                PAUSE_S,
                self._last_error,
            )
            self._asked_again_at = time.monotonic() + PAUSE_S
        return completions

    async def _complete(
        self, prompts: Sequence[str | Prompt], max_tokens: int, seeds: Sequence[int | None], max_time_s: float
    ) -> tuple[list[Completion], bool]:
        """
        The answers, and whether the endpoint works: any request was answered, even if only by refusing its prompt, or might
        have been answered before the deadline.
        """
        import openai

        alive, denied = False, ""
        limit_s = min(self.deadline_s, max_time_s)
        places = asyncio.Semaphore(self.max_concurrency)
        async with openai.AsyncOpenAI(
            **self._options, max_retries=self.max_retries, timeout=self.deadline_s
        ) as client:

            async def ask(prompt: str | Prompt, seed: int | None) -> Completion:
                nonlocal alive, denied
                decoding = {} if seed is None else {"seed": seed}
                async with places:
                    try:
                        completion = await self._ask(client, prompt, max_tokens, **decoding)
                    except (openai.OpenAIError, ValueError) as error:
                        completion = Completion(None, error=self._reason(error))
                        if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
                            denied = completion.error
                        # It may refuse only this prompt, for example because it is too long
                        if not isinstance(error, (openai.BadRequestError, openai.UnprocessableEntityError)):
                            return completion
                alive = True
                return completion

            tasks = [asyncio.create_task(ask(prompt, seed)) for prompt, seed in zip(prompts, seeds, strict=True)]
            _, late = await asyncio.wait(tasks, timeout=limit_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._has_answered |= alive
        if denied and not self._has_answered:
            raise LanguageModelError(f"{self.identity} refuses all requests: {denied} (key: $OPENAI_API_KEY)")
        unanswered = Completion(None, error=f"no answer within {limit_s:.0f} s")
        is_cut = bool(late) and limit_s < self.deadline_s
        return [unanswered if task in late else task.result() for task in tasks], alive or is_cut

    async def _ask(self, client: Any, prompt: str | Prompt, max_tokens: int, **decoding: Any) -> Completion:
        from openai import BadRequestError
        from openai.types.chat import ChatCompletion, ChatCompletionMessage
        from openai.types.chat.chat_completion import Choice

        if opening_of(prompt):
            decoding["extra_body"] = {
                "add_generation_prompt": False,
                "continue_final_message": True,
                "chat_template_kwargs": NO_THOUGHTS,
            }
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
            return await self._ask(client, prompt, max_tokens, **decoding)
        # The client does not check types
        match answer:
            case ChatCompletion(choices=[Choice(message=ChatCompletionMessage(content=content)), *_], usage=usage):
                text = _text_of(content)
            case _:  # for example, a proxy's page
                raise ValueError(f"{self.base_url} did not answer with a chat completion")
        counts = [getattr(usage, name, None) for name in ("completion_tokens", "prompt_tokens")]
        tokens, prompt_tokens = (count if isinstance(count, int) else 0 for count in counts)
        return Completion("" if text is None else opening_of(prompt) + text, tokens, prompt_tokens)

    def _reason(self, error: Exception) -> str:
        """What an error says, in one short line without the API key."""
        from openai import APIStatusError

        match error:
            case APIStatusError(status_code=status, body={"message": str(message)}):
                text = f"{status} {message}"
            case APIStatusError(status_code=status, body=body) if body:  # a text, or FastAPI's {"detail": …}
                text = f"{status} {body}"
            case _:
                text = str(error)
        if (key := self._options["api_key"]) != NO_KEY:
            text = text.replace(key, "[key]")
        return shorten(terminal_line(text), ERROR_WIDTH)

    def fingerprint(self) -> str:
        """See [`LanguageModel`]."""
        return self.identity

    def check_frozen(self) -> None:
        """Does nothing: a server's weights are not visible."""

    def check_is_not(self, policy_server: str) -> None:
        """
        Raises [`LanguageModelError`] if this endpoint is the server, at this URL, that generates for the policy: training
        overwrites that server's weights.
        """
        if _address(self.base_url) == _address(policy_server):
            raise LanguageModelError(
                f"the instrumenter's endpoint {self.base_url} is the vLLM server of the policy, whose weights change in "
                "training: start a separate server for the instrumenter"
            )


def _text_of(content: object) -> str | None:
    """
    The text of an answer, which some servers send in parts, next to thoughts; `None` if a filter or hidden thoughts left none.
    Raises `ValueError` if it has another type.
    """
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError(f"an answer of type {type(content).__name__}")
    parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "".join(texts) if texts else None


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is not a number
        return False


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url if "//" in url else f"//{url}")
    host = parts.hostname or ""
    local = {"localhost", "0.0.0.0", "::1", "::"}  # noqa: S104
    return "127.0.0.1" if host in local else host, parts.port or (443 if parts.scheme == "https" else 80)
