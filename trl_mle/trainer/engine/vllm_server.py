"""A vLLM server that samples in parallel with training, and that may hang, die and come back."""

import copy
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from requests import HTTPError, RequestException, Response, Session
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration


logger = logging.getLogger(__name__)

ATTEMPTS = 3  # at a request or an update of the weights, before training ends
POLL_S = 0.2  # between two looks of all processes at what the main process waits for
LOOK_S = 10.0  # in which a server has to say who it is
CONTROL_S = 600.0  # in which it has to take weights, at most: all processes wait in a collective operation, which has a limit, too
FINAL = (400, 401, 403, 413, 422)  # statuses: the same request would be refused again


class VLLMServerError(RuntimeError):
    """A vLLM server failed in several attempts."""


@dataclass
class Request:
    """A request for the completions of this process's prompts."""

    prompts: list[list[int]]  # tokens, one for each completion
    images: list | None
    num_generations: int
    answer: Future | None = None  # on the main process, the completions of all, and their arrival time
    asked_at: float = 0.0  # by `time.monotonic()`
    failures: int = 0


class VLLMServer:
    """
    Replaces and wraps TRL's [`~trl.generation.vllm_generation.VLLMGeneration`] if a server samples. Between [`ask`]
    and [`collect`], a thread of the main process waits for the server while the trainer does other work. All processes
    call the methods together, on their main threads; only the waiting thread works alone.

    No request is in flight while the server takes new weights. A failed request or update is tried three times in all.
    A restarted server has the weights of its files: it is recognised by its start time, and gets the policy's weights
    first.

    Args:
        generation ([`~trl.generation.vllm_generation.VLLMGeneration`]):
            TRL's, in server mode.
        request_timeout_s (`float`), start_timeout_s (`float`):
            Timeout of a request, and the time that an unreachable server has to come back, in seconds.
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
        """Sends the policy's weights to the server, once it has answered pending requests."""
        for request in list(self._open):
            while not self.answered(request, POLL_S):
                pass
        self._update()

    def generate(
        self, prompts: list[list[int]], images: list | None, num_generations: int, profiler: Any = None
    ) -> tuple:
        with profiler or nullcontext():
            return self.collect(self._expected or self.ask(prompts, images, num_generations))

    def ask(self, prompts: list[list[int]], images: list | None, num_generations: int) -> Request:
        """Requests consecutive completions of this process's prompts with the server's current weights, for
        [`collect`]."""
        request = Request(prompts, images, num_generations)
        self._send(request)
        self._open.append(request)
        return request

    def answered(self, request: Request, timeout_s: float = 0.0) -> bool:
        """Whether the completions have arrived, or arrive in time. Repeats the request if the server failed; raises
        [`VLLMServerError`] if it failed too often."""

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
        """Waits for the completions; returns this process's part like TRL's `generate`."""
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

    def _send(self, request: Request) -> None:
        if self._connect():  # samples of another request are lost with the weights
            self._update()
        request.asked_at = time.monotonic()
        self._generation.generate(request.prompts, request.images, request.num_generations)  # returns nothing yet
        if self._client is not None:
            request.answer = self._client.asked

    def _update(self) -> None:
        """Sends the weights, until a server has received all of them."""
        began = time.monotonic()
        for failures in range(1, ATTEMPTS + 1):
            self._connect()
            self._generation.sync_weights()
            problem = self._of_main(lambda: self._client.take_problem())  # type: ignore[union-attr]
            if problem is None:
                break
            self._retry(problem, failures)
        self.sync_s += time.monotonic() - began

    def _connect(self) -> bool:
        """Waits until the server is reachable; returns whether it lacks the weights, because it was restarted."""
        deadline, pause_s = time.monotonic() + self._start_timeout_s, 1.0
        while True:
            found = self._of_main(lambda: self._client.connect())  # type: ignore[union-attr]
            if not isinstance(found, Problem):
                return found
            if found.is_final:
                raise VLLMServerError(found.text)
            if self._of_main(lambda: time.monotonic() > deadline):
                raise VLLMServerError(f"{found.text}, for {self._start_timeout_s:g} s (vllm_server_timeout)")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 10.0)

    def _retry(self, problem: "Problem", failures: int) -> None:
        if problem.is_final or failures == ATTEMPTS:
            raise VLLMServerError(problem.text + (f" ({failures} attempts)" if failures > 1 else ""))
        if self._client is not None:
            logger.warning("%s: attempt %d of %d follows", problem.text, failures + 1, ATTEMPTS)
        time.sleep(2.0**failures)

    def _of_main(self, look: Callable[[], Any]) -> Any:
        """Returns the main process's result on all processes; if it raises, all raise, so that none waits for it."""
        found: list[Any] = [None, None]
        if self._client is not None:
            try:
                found[0] = look()
            except Exception as error:  # raised below
                found[1] = error
        raised, found[1] = found[1], found[1] and f"{type(found[1]).__name__}: {found[1]}"
        broadcast_object_list(found)
        if found[1] is not None:
            raise raised or RuntimeError(f"the main process has raised {found[1]}")
        return found[0]


@dataclass
class Problem:
    """A server's failure, in one line, and whether a retry is useless."""

    text: str
    is_final: bool = False


class HalfAnswer(ValueError):
    """An incomplete answer."""


class RecoveringClient:
    """Replaces TRL's [`~trl.generation.vllm_client.VLLMClient`] on the main process. Every wait has a timeout, a
    thread waits for completions, and failures are stored for all processes instead of being raised here, where the
    other processes would keep waiting for this one."""

    def __init__(self, client: VLLMClient, device: torch.device, timeout_s: float):
        self._client = client
        self._device = device
        self.answer: dict[str, Any] | None = None  # the next return value of `generate`, instead of a request
        self.asked: Future | None = None  # its last request
        self._problem: Problem | None = None
        self._joined_at: float | None = None  # by the server's clock
        self._has_group = True  # TRL has made it
        client.session = _session(min(timeout_s, CONTROL_S))
        self._asking = copy.copy(client)
        self._asking.session = _session(timeout_s)  # of its own, because another thread uses it

    def connect(self) -> bool | Problem:
        """Joins a server that was started after the last join; returns whether this happened, so that the server lacks
        the weights, or why it cannot be reached."""
        try:
            now, started_at = self._times()
            if self._joined_at is None:
                self._joined_at = now
            if self._has_group and started_at <= self._joined_at + 1:
                return False
            self._has_group = False
            with suppress(RequestException):  # of an interrupted update; vLLM refuses another one before
                self._client._finish_weight_update()
            self._client.close_communicator()
            self._client.init_communicator(self._device)
        except RequestException as error:
            return problem_of(error) or Problem(str(error))
        except RuntimeError as error:  # TRL's errors for an unsuitable server, and errors of the process group
            return Problem(f"the vLLM server cannot be joined: {_one_line(error)}")
        self._joined_at, self._has_group = now, True
        return True

    def logprobs_mode(self) -> str:
        return self._client.get_server_info()["model_config"]["logprobs_mode"]

    def generate(self, prompts: list[list[int]], n: int, **parameters: Any) -> dict[str, Any]:
        """Like TRL's if there is an answer; otherwise sends the request and returns nothing yet."""
        if self.answer is not None:
            answer, self.answer = self.answer, None
            return answer
        self.asked = in_background(lambda: (self._generate(prompts, n, parameters), time.monotonic()))
        return {"prompt_ids": [], "completion_ids": [], "logprobs": None}

    def image_features(self, images: list) -> list:
        return self._client.image_features(images)

    def update_named_params(self, metadata: list, named_params: Iterator) -> None:
        self._try(lambda: self._client.update_named_params(metadata, named_params))
        for _ in named_params:  # gathering them takes all processes
            pass

    def reset_prefix_cache(self) -> None:
        self._try(self._client.reset_prefix_cache)

    def take_problem(self) -> Problem | None:
        """Returns the problem of a weight update. The server is then joined again."""
        problem, self._problem = self._problem, None
        self._has_group = problem is None
        return problem

    def _generate(self, prompts: list[list[int]], n: int, parameters: dict[str, Any]) -> dict[str, Any]:
        try:
            output: dict[str, Any] = self._asking.generate(prompts=prompts, n=n, **parameters)
            lengths = [len(ids) for ids in output["completion_ids"]]
            logps = [len(values) for values in output["logprobs"]]
            known = all(value is not None for row in output["logprobs"] for values in row for value in values)
        except RequestException:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # TRL looked up a missing entry
            raise HalfAnswer(f"{type(error).__name__}: {error}") from error
        if len(lengths) != n * len(prompts) or not all(lengths) or logps != lengths:
            raise HalfAnswer(f"{len(lengths)} of {n * len(prompts)} completions, {len(logps)} with log-probabilities")
        if not known:
            raise HalfAnswer("a token without a log-probability: the logits are not numbers")
        return output

    def _try(self, call: Callable[[], None]) -> None:
        if self._problem is None:
            try:
                call()
            except RequestException as error:
                self._problem = problem_of(error)
            except RuntimeError as error:  # NCCL's
                self._problem = Problem(f"the vLLM server does not take weights: {_one_line(error)}")

    def _times(self) -> tuple[float, float]:
        """The server's current time and its start time: vLLM's process ids are times in nanoseconds."""
        url = f"{self._client.base_url}/server_info"
        answer = self._client.session.get(url, params={"config_format": "json"}, timeout=LOOK_S)
        now = parsedate_to_datetime(answer.headers["Date"]).timestamp()
        return now, int(answer.json()["vllm_config"]["instance_id"]) / 1e9


def problem_of(error: BaseException | None) -> Problem | None:
    """The server's problem behind an exception; raises it again if it is not the server's."""
    if error is None:
        return None
    if isinstance(error, HTTPError):
        assert error.response is not None
        code = error.response.status_code
        return Problem(f"the vLLM server answers {code}: {_one_line(error.response.text)}", is_final=code in FINAL)
    if isinstance(error, HalfAnswer):
        return Problem(f"the vLLM server's answer is incomplete: {error}")
    if isinstance(error, RequestException):
        return Problem(f"the vLLM server does not answer: {type(error).__name__}: {_one_line(error)}")
    raise error


def _one_line(said: object) -> str:
    return " ".join(str(said).split())[:300]


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


def _session(timeout_s: float) -> Session:
    """A session whose requests all have a timeout, and fail only with a `RequestException`."""
    session = Session()
    # Without TRL's retries: a server that came back has other weights
    session.hooks["response"].append(_check_status)
    session.request = functools.partial(session.request, timeout=timeout_s)  # type: ignore[method-assign]
    return session


def _check_status(response: Response, **kwargs: Any) -> None:
    if response.status_code != 200:
        raise HTTPError(f"status {response.status_code}", response=response)
