"""Competitions behind OpenEnv's protocol: the real server in its own process, and OpenEnv's own client."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest


pytest.importorskip("openenv", reason="make test-openenv installs it")

import httpx
from support.openenv_server import SLOW, SUBMIT, VANISH, client, run, served
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from trl_mle.competitions import load_competition


JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served")) as address:
        yield address


def test_an_episode(server):
    with client(server) as environment:
        task = environment.reset(competition="wine")
        assert task.observation["prompt"].startswith("Kaggle competition: wine\n")
        assert (task.observation["status"], task.observation["programs_left"], task.done) == ("task", 2, False)
        failed, _ = run(environment, "1 / 0")
        assert (failed.observation["outcome"], failed.done, failed.reward) == ("error", False, None)
        assert "ZeroDivisionError" in failed.observation["output"]
        slow, asked = run(environment, f"```python\n{SLOW}```")
        assert asked >= 2  # some answers come before the end
        assert slow.done
        assert slow.observation["duration_s"] >= 2
        score = load_competition("wine", holdout=0.5).grade(load_competition("wine").sample_submission)
        assert slow.reward == slow.observation["score"] == score.value
        assert score.held_out is not None
        assert str(score.full) not in json.dumps(slow.observation)  # nor anything about the held-out rows
        with pytest.raises(RuntimeError, match="all 2 programs of this episode have run"):
            environment.step({"program": SUBMIT})
        assert environment.reset(index=1).observation["competition"] == "diabetes"
        assert {environment.reset(seed=seed).observation["competition"] for seed in range(20)} == {"wine", "diabetes"}


def test_a_result_waits_until_it_is_asked_for(server):
    with client(server) as environment:
        environment.reset(competition="wine")
        assert environment.step({"program": SLOW}).observation["status"] == "running"
        with pytest.raises(RuntimeError, match="a program is running: poll with an empty one, and send the next when"):
            environment.step({"program": SUBMIT})
        time.sleep(4)
        ended = environment.step({"program": ""})
        assert (ended.observation["status"], ended.observation["valid"], ended.done) == ("ended", True, False)


def test_what_is_malformed_is_refused_and_the_session_lives(server):
    async def talk():
        async with connect(f"ws://{server}/ws") as ws:

            async def answer(text):
                await ws.send(text)
                return json.loads(await ws.recv())

            def of(kind, **data):
                return json.dumps({"type": kind, "data": data})

            for text, said in [
                ("no json", "INVALID_JSON"),
                (of("jump"), "UNKNOWN_TYPE"),
                (of("step", program=SUBMIT), "reset first"),
                (of("reset", competition="whine"), "this server does not have"),
                (of("reset", index=7), "index must be from 0 to 1"),
                (of("reset", split="test", index=0), "there is no split"),
            ]:
                assert said in json.dumps(await answer(text))
            assert (await answer(of("reset", competition="wine")))["data"]["observation"]["status"] == "task"
            for data in (
                {},
                {"program": 3},
                {"program": "x" * 100_001},
                {"program": "1", "more": 2},
                {"program": " "},
            ):
                assert (await answer(of("step", **data)))["type"] == "error"
            done = await answer(of("step", program=SUBMIT))
            while done["data"]["observation"]["status"] == "running":
                done = await answer(of("step", program=""))
            assert done["data"]["observation"]["valid"]

    asyncio.run(talk())


def test_what_is_too_large_or_too_much_is_refused_and_the_server_lives(server):
    async def flood():
        async with connect(f"ws://{server}/ws") as ws:
            await ws.send("x" * (2 << 20))
            with pytest.raises(ConnectionClosed):
                await ws.recv()
        sessions = [await connect(f"ws://{server}/ws") for _ in range(6)]
        for ws in sessions:
            await ws.send(json.dumps({"type": "reset", "data": {"competition": "wine"}}))
            assert json.loads(await ws.recv())["type"] != "error"
        async with connect(f"ws://{server}/ws") as one_more:
            assert "CAPACITY_REACHED" in await one_more.recv()
        for ws in sessions:
            await ws.close()

    asyncio.run(flood())
    assert httpx.post(f"http://{server}/trl_mle/task", content=b"x" * (2 << 20)).status_code == 413
    assert httpx.post(f"http://{server}/mcp", json={}).status_code == 403  # sessions there would never end
    assert httpx.get(f"http://{server}/health", headers={"Origin": "https://a.page"}).status_code == 403
    assert httpx.post(f"http://{server}/step", json={"action": {"program": SUBMIT}}).status_code == 404
    time.sleep(1)  # until the sessions have ended
    test_an_episode(server)


@pytest.mark.parametrize("query", ["session_id=1", "%73ession_id=1", "a=1&session%5Fid=1", "session_id"])
def test_no_session_of_others(server, query):
    """Neither by its name in the query, however it is written, nor over the protocol that /mcp would speak."""

    async def talk():
        with pytest.raises(InvalidStatus):
            await connect(f"ws://{server}/ws?{query}")
        async with connect(f"ws://{server}/ws") as ws:
            params = {"jsonrpc": "2.0", "method": "openenv/session/create", "id": 1}
            await ws.send(json.dumps({"type": "mcp", "data": params}))
            with pytest.raises(ConnectionClosed, match="1008"):
                await ws.recv()

    asyncio.run(talk())


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity", "1" + "0" * 400, '"a"', "[]", "null"])
def test_a_number_that_is_none_is_the_clients_mistake(server, number):
    for path, body in (
        ("task", f'{{"split": "train", "index": {number}}}'),
        ("task_range", f'{{"split": "train", "start": {number}, "stop": "x"}}'),
        ("tasks", f'{{"split": {number}}}' if number != '"a"' else "{}"),
    ):
        answer = httpx.post(f"http://{server}/trl_mle/{path}", content=body, headers=JSON)
        assert answer.status_code in (400, 422), answer.text

    async def talk():
        async with connect(f"ws://{server}/ws") as ws:
            await ws.send(f'{{"type": "reset", "data": {{"index": {number}, "competition": {number}}}}}')
            return json.loads(await ws.recv())["type"]

    assert asyncio.run(talk()) == ("observation" if number == "null" else "error")


def test_a_request_must_be_sent_in_time(server):
    """Clients that send a header or a body byte by byte are disconnected; a session may be idle for longer."""
    host, port = server.split(":")
    begun = [b"GET /health HTTP/1.1\r\nX: ", b"POST /trl_mle/task HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{"]
    answered = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    slow = [socket.create_connection((host, int(port))) for _ in range(40)]
    for number, connection in enumerate(slow):
        connection.sendall([*begun, answered + begun[0]][number % 3])
    with client(server) as environment:
        environment.reset(competition="wine")
        deadline = time.monotonic() + 20
        while slow and time.monotonic() < deadline:
            time.sleep(0.2)
            slow = [connection for connection in slow if not _has_ended(connection)]
        assert slow == []
        assert environment.state()["competition"] == "wine"


def _has_ended(connection):
    """Sends one more byte; whether the server has closed the connection."""
    connection.settimeout(0.01)
    try:
        connection.sendall(b"a")
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    connection.close()
    return True


def test_a_client_that_vanishes_leaves_its_slots(server):
    """Two clients hold both slots and are killed; a third one's program runs at once."""
    clients = [
        subprocess.Popen([sys.executable, "-c", VANISH, server], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.stdout.readline().strip() for process in clients] == ["running"] * 2
    for process in clients:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    began = time.monotonic()
    with client(server) as environment:
        environment.reset(competition="diabetes")
        result, _ = run(environment, SUBMIT)
    assert result.observation["valid"]
    assert time.monotonic() - began < 20


def test_a_token(tmp_path):
    with served(tmp_path, token="secret") as address:
        assert httpx.get(f"http://{address}/health").status_code == 401
        wrong = {"Authorization": "Bearer guess"}
        assert httpx.get(f"http://{address}/schema", headers=wrong).status_code == 401
        with pytest.raises(ConnectionError), client(address, headers=wrong):
            pass
        with client(address, headers={"Authorization": "Bearer secret"}) as environment:
            assert environment.reset(competition="wine").observation["status"] == "task"
