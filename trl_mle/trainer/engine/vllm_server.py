"""A vLLM server that samples in parallel with training."""

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from accelerate.utils import broadcast_object_list
from requests import HTTPError, RequestException, Response
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration


POLL_S = 0.2  # between two looks of all processes at what the main process waits for


class VLLMServerError(RuntimeError):
    """A vLLM server failed. Training saves a checkpoint and ends."""

    def __init__(self, error: BaseException):
        super().__init__(" ".join(f"the vLLM server failed: {type(error).__name__}: {error}".split())[:300])


@dataclass
class Request:
    prompts: list[list[int]]  # tokens, one for each completion
    images: list | None
    num_generations: int
    answer: Any = None  # a future of the completions of all processes; only on the main process


class VLLMServer:
    """Wraps TRL's [`~trl.generation.vllm_generation.VLLMGeneration`] if a server samples: between [`ask`] and
    [`collect`], a thread of the main process waits for it. All processes call the methods together, and if the server
    fails, all of them raise [`VLLMServerError`]."""

    def __init__(self, generation: VLLMGeneration, request_timeout_s: float):
        self._generation = generation
        self._open: list[Request] = []
        self.expected: Request | None = None  # the next `generate` collects it, whatever its arguments
        self._client: BackgroundClient | None = None
        if generation.accelerator.is_main_process:
            self._client = BackgroundClient(generation.vllm_client, request_timeout_s)
            generation.vllm_client = self._client  # type: ignore[assignment]

    def sync_weights(self) -> None:
        """Sends the policy's weights to the server, once it has answered open requests."""
        for request in self._open:
            self._wait_for(request)
        self._generation.sync_weights()
        self._agree(lambda client: client.failure)

    def generate(
        self, prompts: list[list[int]], images: list | None, num_generations: int, profiler: Any = None
    ) -> tuple:
        with profiler or nullcontext():
            request = self.expected or self.ask(prompts, images, num_generations)
            self.expected = None
            return self.collect(request)

    def ask(self, prompts: list[list[int]], images: list | None, num_generations: int) -> Request:
        """Requests completions from the server's current weights, for [`collect`]."""
        request = Request(prompts, images, num_generations)
        self._generation.generate(prompts, images, num_generations)  # returns nothing yet
        if self._client is not None:
            request.answer = self._client.pending
        self._open.append(request)
        return request

    def answered(self, request: Request, timeout_s: float = 0.0) -> bool:
        # The result, which is never empty, or its failure
        return self._agree(lambda client: bool(wait([request.answer], timeout_s).done and request.answer.result()))

    def collect(self, request: Request) -> tuple:
        """Waits for the completions; returns this process's part like TRL's `generate`."""
        self._wait_for(request)
        self._open.remove(request)
        if self._client is not None:
            self._client.answer = request.answer.result()
        return self._generation.generate(request.prompts, request.images, request.num_generations)

    def forget(self) -> None:
        self._open, self.expected = [], None

    def _wait_for(self, request: Request) -> None:
        while not self.answered(request, POLL_S):
            pass

    def _agree(self, look: Callable[["BackgroundClient"], Any]) -> Any:
        """Returns the main process's result on all processes, or raises its [`VLLMServerError`] there."""
        result: list[Any] = [None]
        if self._client is not None:
            try:
                result[0] = look(self._client)
            except VLLMServerError as error:
                result[0] = error
        broadcast_object_list(result)
        if isinstance(result[0], VLLMServerError):
            raise result[0]
        return result[0]


class BackgroundClient:
    """TRL's client on the main process: a thread waits for completions, and a failed update is raised later, on all
    processes."""

    def __init__(self, client: VLLMClient, timeout_s: float):
        self._client = client
        self.answer: dict[str, Any] | None = None  # the next return value of `generate`, instead of a request
        self.pending: Future | None = None  # its last request
        self.failure: VLLMServerError | None = None  # of an update
        session = client.session
        session.hooks["response"].append(_check_status)
        session.request = functools.partial(session.request, timeout=timeout_s)  # type: ignore[method-assign]
        adapters: Any = session.adapters.values()
        for adapter in adapters:  # keeps TRL's retries, except for a server that hangs
            adapter.max_retries = adapter.max_retries.new(read=False)

    def generate(self, prompts: list[list[int]], n: int, **parameters: Any) -> dict[str, Any]:
        """Like TRL's if there is an answer; otherwise sends the request and returns nothing yet."""
        if self.answer is not None:
            answer, self.answer = self.answer, None
            return answer
        pending = self.pending = Future()

        def run() -> None:
            try:
                output = self._client.generate(prompts=prompts, n=n, **parameters)
                complete = sum(bool(ids) for ids in output["completion_ids"])
                if complete != n * len(prompts):
                    raise ValueError(f"{complete} of {n * len(prompts)} completions")
                pending.set_result(output)
            # In an incomplete answer, TRL looks up what is missing
            except (RequestException, LookupError, TypeError, ValueError, AttributeError) as error:
                pending.set_exception(VLLMServerError(error))
            except BaseException as error:  # the main thread raises it
                pending.set_exception(error)

        threading.Thread(target=run, name="vllm-request", daemon=True).start()
        return {"prompt_ids": [], "completion_ids": [], "logprobs": None}

    def image_features(self, images: list) -> list:
        return self._client.image_features(images)

    def update_named_params(self, metadata: list, named_params: Iterator) -> None:
        self._try(lambda: self._client.update_named_params(metadata, named_params))
        for _ in named_params:  # gathering them takes all processes
            pass

    def reset_prefix_cache(self) -> None:
        self._try(self._client.reset_prefix_cache)

    def _try(self, call: Callable[[], None]) -> None:
        if self.failure is None:
            try:
                call()
            except (RequestException, RuntimeError) as error:  # the latter is NCCL's
                self.failure = VLLMServerError(error)


def _check_status(response: Response, **kwargs: Any) -> None:
    if response.status_code != 200:
        raise HTTPError(f"{response.status_code}: {response.text}", response=response)
