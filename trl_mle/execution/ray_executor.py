"""Runs programs on many machines with Ray (`pip install trl-mle[ray]`)."""

import dataclasses
import functools
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trl_mle.competitions import Competition
from trl_mle.execution.executor import (
    START_TIMEOUT_S,
    ExecutionResult,
    Executor,
    Outcome,
    ProgramFuture,
    longest_round_s,
)
from trl_mle.execution.local_executor import LocalExecutor
from trl_mle.execution.program import OPTIONAL, REQUIRED, Limits, Program
from trl_mle.execution.sandbox import SandboxError
from trl_mle.waits import waiting_for


MAX_RETRIES = 3  # of a program whose machine was lost


@functools.cache
def _local_executor(options: str) -> LocalExecutor:
    """The executor of a Ray worker process, which ends with it."""
    return LocalExecutor(**json.loads(options))


def _execute(program: Program, competition: Competition, options: dict[str, Any]) -> ExecutionResult:
    gpus = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    # Of as many slots as elsewhere: the first may be taken by the executor of another GPU
    slots = options.get("max_parallel") or os.cpu_count() or 1
    executor = _local_executor(json.dumps(options | {"gpus": gpus * slots}))
    return executor.submit(program, competition).result()


def _packages_here(options: dict[str, Any]) -> tuple[str, ...]:
    return _local_executor(json.dumps(options | {"gpus": []})).limits.packages


def _problem_here(options: dict[str, Any], competition: Competition) -> str:
    try:
        _local_executor(json.dumps(options | {"gpus": []})).check(competition)
    except SandboxError as error:
        return str(error)
    return ""


class RayExecutor(Executor):
    """
    Runs programs on the machines of a Ray cluster, as many at a time as fit.

    Each program runs in the sandbox of a [`LocalExecutor`] on its machine. All machines must have `trl_mle`, the
    packages that programs import, and the competitions' files under the same paths. A program whose machine is lost
    runs again on another one, at most three times.

    Args:
        address (`str`, *optional*, defaults to `"auto"`):
            Address of the cluster, as in `ray.init`. Not used if the process is already connected.
        num_gpus (`int`, *optional*, defaults to `0`):
            GPUs per program. Not tried on a GPU yet.
        timeout_s (`float`), threads_per_program (`int`), memory_mb (`int`), **options:
            The arguments of [`LocalExecutor`]. Ray reserves cores and memory for each program.
    """

    def __init__(
        self,
        address: str = "auto",
        num_gpus: int = 0,
        timeout_s: float = 60.0,
        threads_per_program: int = 1,
        memory_mb: int = 4096,
        **options: Any,
    ):
        self._running: dict[ProgramFuture, Any] = {}
        self._lock = threading.Lock()
        self._connected = not ray.is_initialized()
        if self._connected:
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        self.timeout_s = timeout_s
        self.memory_mb = memory_mb
        self.threads_per_program = threads_per_program
        self._options = options | {
            "timeout_s": timeout_s,
            "threads_per_program": threads_per_program,
            "memory_mb": memory_mb,
        }
        resources = {"CPU": threads_per_program, "GPU": num_gpus, "memory": memory_mb << 20}
        self._needed = {name: amount for name, amount in resources.items() if amount}  # by one program
        self._remote = ray.remote(
            num_cpus=threads_per_program, num_gpus=num_gpus, memory=memory_mb << 20, max_retries=MAX_RETRIES
        )(_execute)
        if not self._machines():
            self.close()  # Ray would wait forever for such a machine
            each = f"{threads_per_program} CPU, {num_gpus} GPU and {memory_mb} MB"
            raise ValueError(f"no machine of the Ray cluster has the {each} that a program needs: lower the request")

    def _machines(self) -> list[dict[str, Any]]:
        """Ray's records of the machines that can run a program."""
        alive = [node for node in ray.nodes() if node["Alive"]]
        needed = self._needed.items()
        return [node for node in alive if all(node["Resources"].get(name, 0) >= amount for name, amount in needed)]

    @functools.cached_property
    def limits(self) -> Limits:
        """Limits of a program, with the packages that all machines have."""
        everywhere = self._on_each_machine(_packages_here)
        shared = tuple(name for name in REQUIRED + OPTIONAL if all(name in packages for packages in everywhere))
        return Limits(self.timeout_s, self.memory_mb, self.threads_per_program, shared)

    def _on_each_machine(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Calls a function on each machine, without waiting for programs."""
        remote = ray.remote(num_cpus=0)(function)
        where = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in self._machines()]
        with waiting_for("each machine of the Ray cluster to check its sandbox"):
            return ray.get([remote.options(scheduling_strategy=node).remote(self._options, *args) for node in where])

    @property
    def description(self) -> str:
        return f"programs run on a Ray cluster of {ray.cluster_resources().get('CPU', 0):g} cores"

    def close(self) -> None:
        """Ends running programs, and leaves the cluster if this executor connected to it."""
        for outer, reference in list(self._running.items()):
            ray.cancel(reference, force=True)
            self._settle(outer, ExecutionResult(Outcome.INFRASTRUCTURE, "the executor was closed"))
        if self._connected:
            ray.shutdown()

    def check(self, competition: Competition) -> None:
        if os.environ.get("RANK", "0") != "0":
            return
        problems = [
            f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}): {problem}"
            for node, problem in zip(self._machines(), self._on_each_machine(_problem_here, competition), strict=True)
            if problem
        ]
        if problems:
            raise SandboxError(f"programs cannot be run on the Ray cluster: {'; '.join(problems)}")

    def submit(self, program: Program, competition: Competition) -> ProgramFuture:
        """Queues a program. The result's `queue_wait_s` is all time outside Δt."""
        submitted = time.monotonic()
        outer = ProgramFuture()

        def settle(inner: "Future[ExecutionResult]") -> None:
            passed = time.monotonic() - submitted
            try:
                result = inner.result()
            except ray.exceptions.RayError as error:
                problem = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[-1]}"
                self._settle(outer, ExecutionResult(Outcome.INFRASTRUCTURE, problem, queue_wait_s=passed))
            else:
                waited = max(0.0, passed - (result.duration_s or 0.0))
                self._settle(outer, dataclasses.replace(result, queue_wait_s=waited))

        reference = self._remote.remote(program, competition, self._options)
        self._running[outer] = reference
        outer.add_done_callback(lambda done: ray.cancel(reference, force=True) if done.cancelled() else None)
        reference.future().add_done_callback(settle)
        return outer

    def _settle(self, outer: ProgramFuture, result: ExecutionResult) -> None:
        with self._lock:  # a program may end while the executor is closed
            if self._running.pop(outer, None) is not None and not outer.cancelled():
                outer.set_result(result)

    def longest_s(self, programs: int) -> float:
        """See [`LocalExecutor.longest_s`]. Here all processes share the cluster, and machines may be lost."""
        machines = [node["Resources"] for node in self._machines()]
        needed = self._needed.items()
        fitting = sum(int(min(machine[name] // amount for name, amount in needed)) for machine in machines)
        rounds = math.ceil(int(os.environ.get("WORLD_SIZE", "1")) * programs / max(1, fitting))
        return (1 + MAX_RETRIES) * (START_TIMEOUT_S + rounds * longest_round_s(self.timeout_s))
