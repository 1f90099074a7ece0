"""
Serves competitions through OpenEnv's protocol (https://github.com/huggingface/OpenEnv), for other agents and trainers.

A session is one episode: `reset` returns the task, `step` runs a program. If a program takes longer than the client
waits, the answer has the status `running`, and the client polls with an empty program. Programs of all sessions share
the executor's slots and sandbox. A session's running programs end with it.
"""

import asyncio
import hmac
import json
import random
import time
from typing import Any, Literal

import h11
import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from pydantic import ConfigDict, Field
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from trl_mle.competitions import Competition
from trl_mle.environments.environment import FAILED, finished, start
from trl_mle.execution import SandboxError
from trl_mle.prompts import plain_text, scratch_prompt
from trl_mle.rewards import Evaluation, MLEReward, PendingEvaluation, cut_middle


ANSWER_S = 25.0  # maximum time to answer a step, in seconds; clients wait for 60
MAX_CHARS = 100_000  # of a program
MAX_BYTES = 1 << 20  # of a request
REQUEST_S = 10.0  # maximum time to send a request, in seconds


class ProgramAction(Action):
    """A program to run. An empty program polls for the running one."""

    model_config = ConfigDict(extra="forbid")
    program: str = Field(max_length=MAX_CHARS, description="Whole source of a Python program; empty: ask again")


class ProgramObservation(Observation):
    """The task, or the result of a program. The reward comes with the last program of the episode."""

    status: Literal["task", "running", "ended"] = Field(
        description="Whether there is a program, and whether it has ended"
    )
    competition: str = Field(description="Id of the competition")
    prompt: str = Field(default="", description="The task, where an episode begins")
    outcome: str | None = Field(default=None, description="How the program ended: ok, error, timeout, …")
    valid: bool | None = Field(default=None, description="Whether its submission is valid")
    score: float | None = Field(
        default=None, description="Score of a valid submission, on the rows that are not held out"
    )
    duration_s: float | None = Field(default=None, description="Δt: seconds that the program ran")
    milestones: list[str] = Field(default_factory=list, description="The milestones that it reached")
    output: str = Field(default="", description="What it printed, its beginning and end; errors last")
    detail: str = Field(default="", description="Why there is no valid submission, in one line")
    programs_left: int = Field(description="Programs that may still be run in this episode")


class EpisodeState(State):
    """State of an episode."""

    competition: str | None = None
    programs: int = 0


class ProgramEnvironment(Environment[ProgramAction, ProgramObservation, EpisodeState]):
    """One session of the server."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, reward: MLEReward, max_programs: int, answer_s: float):
        super().__init__()
        self._reward = reward
        self._max_programs = max_programs
        self._answer_s = answer_s
        self._competition: Competition | None = None
        self._pending: PendingEvaluation | None = None
        self._program = ""  # the running one
        self._state = EpisodeState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        competition: str | None = None,
        index: int | None = None,
        split: str = "train",
        **kwargs: Any,
    ) -> ProgramObservation:
        """Begins an episode of the competition with an id, or with an index, or else of one drawn by the seed."""
        known = self._reward.competitions
        if competition is None:
            ids = list(known)
            competition = (
                str(self.get_task(split, index)["id"]) if index is not None else random.Random(seed).choice(ids)
            )
        if competition not in known:
            raise ValueError(f"this server does not have {competition!r}; it has {', '.join(known.few())}")
        self.close()
        self._competition = known[competition]
        self._state = EpisodeState(episode_id=episode_id, competition=competition)
        (message,) = scratch_prompt(self._competition, self._reward.executor.limits)
        return self._observation("task", prompt=message["content"])

    def step(self, action: ProgramAction, timeout_s: float | None = None, **kwargs: Any) -> ProgramObservation:
        """
        Runs a program, or asks again for the running one, and waits for at most `timeout_s` seconds, or the server's
        limit.
        """
        if self._competition is None:
            raise ValueError("reset first: no competition was named")
        if self._pending is None:
            if not action.program.strip():
                raise ValueError("no program runs: send one")
            if not self._left:
                raise ValueError(f"all {self._max_programs} programs of this episode have run: reset")
            try:
                (self._pending,) = start(self._reward, action.program, self._competition)
            except (OSError, SandboxError) as error:
                raise ValueError(FAILED) from error
            self._program = action.program.strip()
            self._state.programs += 1
            self._state.step_count += 1
        elif action.program.strip() not in ("", self._program):
            raise ValueError("a program is running: poll with an empty one, and send the next when it has ended")
        until = time.monotonic() + min(self._answer_s, timeout_s or self._answer_s)
        evaluation = finished(self._pending, until)
        if evaluation is None:
            return self._observation("running")
        self._pending = None
        return self._ended(evaluation)

    def _ended(self, evaluation: Evaluation) -> ProgramObservation:
        if evaluation.infrastructure_failed:  # it does not count
            self._state.programs -= 1
            return self._observation("ended", outcome=str(evaluation.outcome), valid=False, detail=FAILED)
        over = not self._left
        return self._observation(
            "ended",
            done=over,
            reward=evaluation.reward if over else None,
            outcome=str(evaluation.outcome),
            valid=evaluation.valid,
            score=evaluation.score.value if evaluation.score is not None else None,
            duration_s=evaluation.duration_s,
            milestones=list(evaluation.milestones),
            output=plain_text(cut_middle(evaluation.output)),
            detail=plain_text(evaluation.detail),
        )

    def _observation(self, status: Literal["task", "running", "ended"], **fields: Any) -> ProgramObservation:
        assert self._competition is not None
        return ProgramObservation(status=status, competition=self._competition.id, programs_left=self._left, **fields)

    @property
    def _left(self) -> int:
        return self._max_programs - self._state.programs

    @property
    def state(self) -> EpisodeState:
        """State of the episode."""
        return self._state

    def close(self) -> None:
        """Ends the running program, if any."""
        if self._pending is not None:
            self._reward.stop(self._pending)
        self._pending = None

    def list_splits(self) -> list[str]:
        """The only split of tasks."""
        return ["train"]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """The competitions."""
        if split not in self.list_splits():
            raise ValueError(f"there is no split {split!r}: take 'train'")
        return [{"id": name, "index": i} for i, name in enumerate(self._reward.competitions)]

    def num_tasks(self, split: str) -> int:
        """Number of competitions."""
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One competition."""
        if not 0 <= index < self.num_tasks(split):
            raise IndexError(f"index must be from 0 to {self.num_tasks(split) - 1}, got {index}")
        return self.list_tasks(split)[index]


class Guard:
    """Checks every request: its token, if one is set, its size, and that it concerns no other session."""

    def __init__(self, app: ASGIApp, token: str | None):
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"authorization", b"")
        if self._token is not None and not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            await _refuse(scope, send, 401)
            return
        # Without a token, serve only local programs: browsers send an origin, and a session has a single client
        if (
            (self._token is None and b"origin" in headers)
            or scope["path"].startswith("/mcp")
            or "session_id" in QueryParams(scope["query_string"])
        ):
            await _refuse(scope, send, 403)
            return
        if int(headers.get(b"content-length", b"0") or 0) > MAX_BYTES or b"transfer-encoding" in headers:
            await _refuse(scope, send, 413)
            return

        async def receive_checked() -> Message:
            message = await receive()
            if scope["type"] == "websocket" and _is_mcp(message.get("text")):  # it reaches what /mcp does
                await _refuse(scope, send, 403)
                return {"type": "websocket.disconnect", "code": 1008}
            return message

        await self._app(scope, receive_checked, send)


def _is_mcp(text: str | None) -> bool:
    try:
        message = json.loads(text or "null")
    except (ValueError, RecursionError):  # the application answers that it is malformed
        return False
    return isinstance(message, dict) and message.get("type") == "mcp"


async def _refuse(scope: Scope, send: Send, status: int) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    start: Message = {"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]}
    await send(start)
    await send({"type": "http.response.body", "body": b""})


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    """Answers a malformed request without repeating it: JSON has no infinite number, but a request can name one."""
    assert isinstance(error, RequestValidationError)
    detail = [{key: problem[key] for key in ("type", "loc", "msg")} for problem in error.errors()]
    return JSONResponse({"detail": detail}, status_code=422)


class TimedRequests(H11Protocol):
    """uvicorn's protocol, with a time limit for sending a request; uvicorn limits only the pause between two requests."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._wait_for_request()

    def on_response_complete(self) -> None:
        """Begins to wait for the next request."""
        super().on_response_complete()
        self._wait_for_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hands the connection over: a session may be idle."""
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_request(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(REQUEST_S, self._close_unless_received)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _close_unless_received(self) -> None:
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self.transport.close()


def listen(app: FastAPI, host: str, port: int) -> None:
    """Serves an application of [`make_app`] until interrupted."""
    uvicorn.run(app, host=host, port=port, http=TimedRequests, ws_max_size=MAX_BYTES, log_level="warning")


def make_app(
    reward: MLEReward,
    max_programs: int = 1,
    max_sessions: int = 64,
    token: str | None = None,
    answer_s: float = ANSWER_S,
) -> FastAPI:
    """Builds the server as an ASGI application. Scores on held-out rows never leave it."""
    app = create_fastapi_app(
        lambda: ProgramEnvironment(reward, max_programs, answer_s),
        ProgramAction,
        ProgramObservation,
        max_concurrent_envs=max_sessions,
        env_name="trl_mle",
        state_cls=EpisodeState,
        mode="production",  # episodes are sessions: a single HTTP request has none
    )
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_middleware(Guard, token=token)
    return app
