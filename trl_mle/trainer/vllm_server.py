"""A vLLM server that samples while the trainer works, and that may hang, die and come back."""

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from requests import HTTPError, RequestException, Response
from requests.adapters import HTTPAdapter
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration


logger = logging.getLogger(__name__)

ATTEMPTS = 3  # at a request or an update of the weights, before training ends
POLL_S = 0.2  # between two looks of all processes at what the main process waits for
LOOK_S = 10.0  # in which a server has to say who it is


class VLLMServerError(RuntimeError):
    """A vLLM server did not do what it was asked to, in several attempts."""


@dataclass
class Request:
    """
    Completions that a server was asked for.

    Args:
        prompts (`list[list[int]]`):
            Tokens of this process' prompts, one for each completion.
        images (`list`, *optional*):
            Their images.
        num_generations (`int`):
            Completions of each prompt.
        answer (`Future`, *optional*):
            On the main process, the completions of all processes, and when they came by `time.monotonic()`.
        asked_at (`float`, *optional*, defaults to `0.0`):
            When they were asked for.
        failures (`int`, *optional*, defaults to `0`):
            Attempts that failed.
    """

    prompts: list[list[int]]
    images: list | None
    num_generations: int
    answer: Future | None = None
    asked_at: float = 0.0
    failures: int = 0


class VLLMServer:
    """
    Takes the place of TRL's [`~trl.generation.vllm_generation.VLLMGeneration`] where a server samples, and calls it. Between
    [`ask`] and [`collect`] a thread of the main process waits for the server, and the trainer can do something else. All
    processes call the methods together, on their main threads; only that thread does without the others.

    No request is in flight while the server takes new weights. A request or an update that fails is tried again, three times in
    all. A server that was restarted has the weights of its files: it is recognised, and gets the policy's first.

    Args:
        generation ([`~trl.generation.vllm_generation.VLLMGeneration`]):
            TRL's, in server mode.
        request_timeout_s (`float`):
            Seconds in which the server has to answer a request.
        start_timeout_s (`float`):
            Seconds in which a server that cannot be reached has to come back.
    """

    def __init__(self, generation: VLLMGeneration, request_timeout_s: float, start_timeout_s: float):
        self._generation = generation
        self._start_timeout_s = start_timeout_s
        self._open: list[Request] = []
        self._expected: Request | None = None
        self.sync_s = self.generation_s = 0.0  # seconds so far
        self._client: RecoveringClient | None = None
        if generation.accelerator.is_main_process:
            self._client = RecoveringClient(generation.vllm_client, generation.accelerator.device, request_timeout_s)
            generation.vllm_client = self._client  # type: ignore[assignment]

    def sync_weights(self) -> None:
        """Hands the policy's weights to the server, once it has answered what it was asked before."""
        for request in self._open:
            while not self.answered(request, POLL_S):
                pass
        began = time.monotonic()
        self._update()
        self.sync_s += time.monotonic() - began

    def generate(
        self, prompts: list[list[int]], images: list | None, num_generations: int, profiler: Any = None
    ) -> tuple:
        """As TRL's."""
        with profiler or nullcontext():
            return self.collect(self._expected or self.ask(prompts, images, num_generations))

    def ask(self, prompts: list[list[int]], images: list | None, num_generations: int) -> Request:
        """
        Asks for completions by the weights that the server has.

        Args:
            prompts (`list[list[int]]`):
                Tokens of this process' prompts, one for each completion.
            images (`list`, *optional*):
                Their images.
            num_generations (`int`):
                Completions of each prompt, which are consecutive.

        Returns:
            [`Request`]: What [`collect`] takes.
        """
        request = Request(prompts, images, num_generations)
        self._send(request)
        self._open.append(request)
        return request

    def answered(self, request: Request, timeout_s: float = 0.0) -> bool:
        """
        Whether the completions are there. Asks again if the server failed.

        Args:
            request ([`Request`]):
                What was asked.
            timeout_s (`float`, *optional*, defaults to `0.0`):
                Seconds to wait for them.

        Raises:
            [`VLLMServerError`]: It has failed too often.
        """

        def look() -> tuple[bool, Problem | None]:
            assert request.answer is not None
            done = bool(wait([request.answer], timeout_s).done)
            return done, problem_of(request.answer.exception()) if done else None

        done, problem = self._of_main(look)
        if problem is None:
            return done
        request.failures += 1
        self._retry(problem, request.failures)
        self._send(request)
        return False

    def collect(self, request: Request) -> tuple:
        """Waits for the completions; returns this process' as TRL's `generate` does."""
        while not self.answered(request, POLL_S):
            pass
        self._open.remove(request)
        if self._client is not None:
            assert request.answer is not None
            self._client.answer, answered_at = request.answer.result()
            self.generation_s += answered_at - request.asked_at
        return self._generation.generate(request.prompts, request.images, request.num_generations)

    @contextmanager
    def expecting(self, request: Request) -> Iterator[None]:
        """Within it, [`generate`] collects this request, whatever it is called with."""
        self._expected = request
        try:
            yield
        finally:
            self._expected = None

    def _send(self, request: Request) -> None:
        if self._connect():
            self._update()
        request.asked_at = time.monotonic()
        self._generation.generate(request.prompts, request.images, request.num_generations)  # returns nothing yet
        if self._client is not None:
            request.answer = self._client.asked

    def _update(self) -> None:
        """Hands over the weights, until a server has taken them all."""
        for failures in range(1, ATTEMPTS + 1):
            self._connect()
            self._generation.sync_weights()
            problem = self._of_main(lambda: self._client.take_problem())  # type: ignore[union-attr]
            if problem is None:
                return
            self._retry(problem, failures)

    def _connect(self) -> bool:
        """Waits until the server can be reached; returns whether it is another one than that which has the weights."""
        deadline, pause_s = time.monotonic() + self._start_timeout_s, 1.0
        while True:
            found = self._of_main(lambda: self._client.look())  # type: ignore[union-attr]
            if not isinstance(found, Problem):
                break
            if found.is_final:
                raise VLLMServerError(found.text)
            if self._of_main(lambda: time.monotonic() > deadline):
                raise VLLMServerError(f"{found.text}, for {self._start_timeout_s:g} s (vllm_server_timeout)")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 10.0)
        if found and self._client is not None:
            self._client.join()
        return found

    def _retry(self, problem: "Problem", failures: int) -> None:
        if problem.is_final or failures == ATTEMPTS:
            raise VLLMServerError(problem.text + (f" ({failures} attempts)" if failures > 1 else ""))
        if self._client is not None:
            logger.warning("%s: attempt %d of %d follows", problem.text, failures + 1, ATTEMPTS)
        time.sleep(2.0**failures)

    def _of_main(self, look: Callable[[], Any]) -> Any:
        """What the main process finds, on all processes."""
        found = [look() if self._client is not None else None]
        broadcast_object_list(found)
        return found[0]


@dataclass
class Problem:
    """
    What a server did wrong.

    Args:
        text (`str`):
            In one line.
        is_final (`bool`, *optional*, defaults to `False`):
            Whether asking again is of no use.
    """

    text: str
    is_final: bool = False


class HalfAnswer(ValueError):
    """An answer without all that was asked for."""


class RecoveringClient:
    """
    Takes the place of TRL's [`~trl.generation.vllm_client.VLLMClient`], on the main process. Nothing waits without a bound,
    completions are waited for in a thread, and a failure is kept for all processes to see instead of being raised here, where
    the others would go on waiting for this one.

    Args:
        client ([`~trl.generation.vllm_client.VLLMClient`]):
            TRL's.
        device (`torch.device`):
            Of the weights.
        timeout_s (`float`):
            Seconds in which the server has to answer.
    """

    def __init__(self, client: VLLMClient, device: torch.device, timeout_s: float):
        self._client = client
        self._device = device
        self.answer: dict[str, Any] | None = None  # what `generate` returns next, instead of asking
        self.asked: Future | None = None  # what it has asked last
        self._problem: Problem | None = None
        session = client.session
        for scheme in ("http://", "https://"):  # TRL's retry by themselves: a server that came back has other weights
            session.mount(scheme, HTTPAdapter())
        session.hooks["response"].append(_raise_for_status)
        session.request = functools.partial(session.request, timeout=timeout_s)  # type: ignore[method-assign]
        self._instance: str | None = self._find_instance()

    def look(self) -> bool | Problem:
        """Whether the server is another one than that which has the weights; or that it cannot be reached."""
        try:
            return self._find_instance() != self._instance
        except RequestException as error:
            problem = problem_of(error)
            assert problem is not None
            return problem

    def join(self) -> None:
        """Makes the group of processes in which the server takes weights."""
        self._instance = self._find_instance()
        with suppress(RequestException):  # of an update that broke off; vLLM refuses another one before
            self._client._finish_weight_update()
        self._client.close_communicator()
        self._client.init_communicator(self._device)

    def generate(self, prompts: list[list[int]], n: int, **parameters: Any) -> dict[str, Any]:
        """As TRL's, if there is an answer; else it asks for one, and returns nothing yet."""
        if self.answer is not None:
            answer, self.answer = self.answer, None
            return answer
        self.asked = in_background(lambda: (self._generate(prompts, n, parameters), time.monotonic()))
        return {"prompt_ids": [], "completion_ids": [], "logprobs": None}

    def image_features(self, images: list) -> list:
        """TRL's."""
        return self._client.image_features(images)

    def update_named_params(self, metadata: list, named_params: Iterator) -> None:
        """As TRL's."""
        self._try(lambda: self._client.update_named_params(metadata, named_params))
        for _ in named_params:  # gathering them takes all processes
            pass

    def reset_prefix_cache(self) -> None:
        """As TRL's."""
        self._try(self._client.reset_prefix_cache)

    def take_problem(self) -> Problem | None:
        """What went wrong with an update of the weights. The server then counts as another one."""
        problem, self._problem = self._problem, None
        if problem is not None:
            self._instance = None
        return problem

    def _generate(self, prompts: list[list[int]], n: int, parameters: dict[str, Any]) -> dict[str, Any]:
        try:
            output = self._client.generate(prompts=prompts, n=n, **parameters)
        except (LookupError, TypeError) as error:  # TRL looked for what was not there
            raise HalfAnswer(f"{type(error).__name__}: {error}") from error
        lengths = [len(ids) for ids in output["completion_ids"]]
        logps = [len(values) for values in output["logprobs"] or []]
        if len(lengths) != n * len(prompts) or not all(lengths) or logps != lengths:
            raise HalfAnswer(f"{len(lengths)} of {n * len(prompts)} completions, {len(logps)} with log-probabilities")
        return output

    def _try(self, call: Callable[[], None]) -> None:
        if self._problem is None:
            try:
                call()
            except RequestException as error:
                self._problem = problem_of(error)

    def _find_instance(self) -> str:
        """The random id that a vLLM gives itself when it starts."""
        url = f"{self._client.base_url}/server_info"
        answer = self._client.session.get(url, params={"config_format": "json"}, timeout=LOOK_S)
        return answer.json()["vllm_config"]["instance_id"]


def problem_of(error: BaseException | None) -> Problem | None:
    """What an exception says of the server; raised again if that is nothing."""
    if error is None:
        return None
    if isinstance(error, HTTPError):
        assert error.response is not None
        said = " ".join(error.response.text.split())[:300]
        code = error.response.status_code
        return Problem(f"the vLLM server answers {code}: {said}", is_final=400 <= code < 500)
    if isinstance(error, HalfAnswer):
        return Problem(f"the vLLM server answers half: {error}")
    if isinstance(error, RequestException):
        return Problem(
            f"the vLLM server does not answer: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        )
    raise error


def in_background(call: Callable[[], Any]) -> Future:
    """Calls it in a thread that the end of the program does not wait for."""
    future: Future = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # the main thread raises it
            future.set_exception(error)

    threading.Thread(target=run, name="vllm-request", daemon=True).start()
    return future


def _raise_for_status(response: Response, **kwargs: Any) -> None:
    response.raise_for_status()
