"""A vLLM server that samples in parallel with training."""

import functools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from accelerate.utils import broadcast_object_list
from requests import HTTPError, RequestException, Response
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration


POLL_S = 0.2  # between two looks of all processes at what the main process waits for


class VLLMServerError(RuntimeError):
    """A vLLM server failed. Training saves a checkpoint and ends."""


@dataclass
class Request:
    """A request for the completions of this process's prompts."""

    prompts: list[list[int]]  # tokens, one for each completion
    images: list | None
    num_generations: int
    sent_at: float  # by `time.monotonic()`
    answer: Future | None = None  # on the main process, the completions of all, and their arrival time


class VLLMServer:
    """
    Wraps TRL's [`~trl.generation.vllm_generation.VLLMGeneration`] if a server samples. Between [`ask`] and [`collect`],
    a thread of the main process waits for the server while the trainer does other work. All processes call the methods
    together, on their main threads, and if the server fails, all of them raise [`VLLMServerError`]. No request is in
    flight while the server takes new weights.

    Args:
        generation ([`~trl.generation.vllm_generation.VLLMGeneration`]):
            TRL's, in server mode.
        request_timeout_s (`float`):
            Timeout of a request in seconds.
    """

    def __init__(self, generation: VLLMGeneration, request_timeout_s: float):
        self._generation = generation
        self._open: list[Request] = []
        self._expected: Request | None = None
        self.sync_s = self.generation_s = 0.0  # seconds so far
        self._client: BackgroundClient | None = None
        if generation.accelerator.is_main_process:
            self._client = BackgroundClient(generation.vllm_client, request_timeout_s)
            generation.vllm_client = self._client  # type: ignore[assignment]

    def sync_weights(self) -> None:
        """Sends the policy's weights to the server, once it has answered pending requests."""
        for request in self._open:
            self._wait_for(request)
        began = time.monotonic()
        self._generation.sync_weights()
        self._of_main(lambda: self._client.raise_failure())  # type: ignore[union-attr]
        self.sync_s += time.monotonic() - began

    def generate(
        self, prompts: list[list[int]], images: list | None, num_generations: int, profiler: Any = None
    ) -> tuple:
        with profiler or nullcontext():
            return self.collect(self._expected or self.ask(prompts, images, num_generations))

    def ask(self, prompts: list[list[int]], images: list | None, num_generations: int) -> Request:
        """Requests consecutive completions of this process's prompts with the server's current weights, for
        [`collect`]."""
        request = Request(prompts, images, num_generations, time.monotonic())
        self._generation.generate(prompts, images, num_generations)  # returns nothing yet
        if self._client is not None:
            request.answer = self._client.pending
        self._open.append(request)
        return request

    def answered(self, request: Request, timeout_s: float = 0.0) -> bool:
        """Whether the completions have arrived, or arrive in time."""

        def look() -> bool:
            assert request.answer is not None
            done = bool(wait([request.answer], timeout_s).done)
            if done and (error := request.answer.exception()) is not None:
                raise _server_error(error)
            return done

        return self._of_main(look)

    def collect(self, request: Request) -> tuple:
        """Waits for the completions; returns this process's part like TRL's `generate`."""
        self._wait_for(request)
        self._open.remove(request)
        if self._client is not None:
            assert request.answer is not None
            self._client.answer, answered_at = request.answer.result()
            self.generation_s += answered_at - request.sent_at
        return self._generation.generate(request.prompts, request.images, request.num_generations)

    @contextmanager
    def expecting(self, request: Request) -> Iterator[None]:
        """Context in which [`generate`] collects this request, whatever its arguments."""
        self._expected = request
        try:
            yield
        finally:
            self._expected = None

    def forget(self) -> None:
        """Drops pending requests, because training resumes from a checkpoint."""
        self._open, self._expected = [], None

    def check_logps(self) -> None:
        """Raises `ValueError` if the server's log-probabilities are not of the distribution that it samples from."""
        mode = self._of_main(lambda: self._client.logprobs_mode())  # type: ignore[union-attr]
        if mode != "processed_logprobs":
            raise ValueError(
                f"the vLLM server runs with --logprobs-mode {mode}, and asynchronous training divides by its log-probabilities: "
                "restart it with --logprobs-mode processed_logprobs"
            )

    def _wait_for(self, request: Request) -> None:
        while not self.answered(request, POLL_S):
            pass

    def _of_main(self, look: Callable[[], Any]) -> Any:
        """Returns the main process's result on all processes, or raises its [`VLLMServerError`] there."""
        result: list[Any] = [None]
        if self._client is not None:
            try:
                result[0] = look()
            except VLLMServerError as error:
                result[0] = error
        broadcast_object_list(result)
        if isinstance(result[0], VLLMServerError):
            raise result[0]
        return result[0]


class BackgroundClient:
    """Replaces TRL's [`~trl.generation.vllm_client.VLLMClient`] on the main process: a thread waits for completions, and
    a failed update is raised later, on all processes, which would otherwise wait for this one."""

    def __init__(self, client: VLLMClient, timeout_s: float):
        self._client = client
        self.answer: dict[str, Any] | None = None  # the next return value of `generate`, instead of a request
        self.pending: Future | None = None  # its last request
        self._failure: VLLMServerError | None = None
        session = client.session
        session.hooks["response"].append(_check_status)
        session.request = functools.partial(session.request, timeout=timeout_s)  # type: ignore[method-assign]
        for adapter in session.adapters.values():  # keeps TRL's retries, except for a server that hangs
            adapter.max_retries = adapter.max_retries.new(read=False)  # type: ignore[attr-defined]  # HTTPAdapter has it

    def logprobs_mode(self) -> str:
        return self._client.get_server_info()["model_config"]["logprobs_mode"]

    def generate(self, prompts: list[list[int]], n: int, **parameters: Any) -> dict[str, Any]:
        """Like TRL's if there is an answer; otherwise sends the request and returns nothing yet."""
        if self.answer is not None:
            answer, self.answer = self.answer, None
            return answer
        self.pending = in_background(lambda: (self._generate(prompts, n, parameters), time.monotonic()))
        return {"prompt_ids": [], "completion_ids": [], "logprobs": None}

    def image_features(self, images: list) -> list:
        return self._client.image_features(images)

    def update_named_params(self, metadata: list, named_params: Iterator) -> None:
        self._try(lambda: self._client.update_named_params(metadata, named_params))
        for _ in named_params:  # gathering them takes all processes
            pass

    def reset_prefix_cache(self) -> None:
        self._try(self._client.reset_prefix_cache)

    def raise_failure(self) -> None:
        """Raises the failure of a weight update."""
        if self._failure is not None:
            raise self._failure

    def _generate(self, prompts: list[list[int]], n: int, parameters: dict[str, Any]) -> dict[str, Any]:
        output: dict[str, Any] = self._client.generate(prompts=prompts, n=n, **parameters)
        complete = [ids for ids in output["completion_ids"] if ids]
        if len(complete) != n * len(prompts):
            raise ValueError(f"{len(complete)} of {n * len(prompts)} completions")
        return output

    def _try(self, call: Callable[[], None]) -> None:
        if self._failure is None:
            try:
                call()
            except (RequestException, RuntimeError) as error:  # the latter is NCCL's
                self._failure = VLLMServerError(_one_line(error))


def _server_error(error: BaseException) -> VLLMServerError:
    """The server's failure in one line; raises the exception again if it is not the server's."""
    if isinstance(error, (RequestException, LookupError, TypeError, ValueError, AttributeError)):
        return VLLMServerError(_one_line(error))  # in an incomplete answer, TRL looks up what is missing
    raise error


def _one_line(error: BaseException) -> str:
    return " ".join(f"the vLLM server failed: {type(error).__name__}: {error}".split())[:300]


def in_background(call: Callable[[], Any]) -> Future:
    """Calls a function in a daemon thread."""
    future: Future = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # the main thread raises it
            future.set_exception(error)

    threading.Thread(target=run, name="vllm-request", daemon=True).start()
    return future


def _check_status(response: Response, **kwargs: Any) -> None:
    if response.status_code != 200:
        raise HTTPError(f"{response.status_code}: {response.text}", response=response)
