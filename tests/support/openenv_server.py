"""The real OpenEnv server in its own process, and clients for it."""

import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
from openenv import GenericEnvClient


SUBMIT = "import pandas as pd\npd.read_csv('input/sample_submission.csv').to_csv('submission.csv', index=False)\n"
SLOW = f"import time\ntime.sleep(2)\n{SUBMIT}"
SERVE = """
import sys
from trl_mle.competitions import load_competition
from trl_mle.environments import server
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import MLEReward

with LocalExecutor(max_parallel=2, timeout_s=60, packages=["pandas"]) as executor:
    competitions = [load_competition("wine", holdout=0.5), load_competition("diabetes")]
    reward = MLEReward(competitions, executor, AstInstrumenter(), show_progress=False, log_dir=sys.argv[2])
    server.REQUEST_S = 2.0
    app = server.make_app(reward, max_programs=int(sys.argv[4]), max_sessions=6, token=sys.argv[3] or None, answer_s=1.0)
    server.listen(app, "127.0.0.1", int(sys.argv[1]))
"""
# Starts a program of 50 s, prints its status, and waits to be killed; without openenv, whose import takes seconds
VANISH = """
import json, sys, time
from websockets.sync.client import connect

with connect(f"ws://{sys.argv[1]}/ws") as ws:
    for kind, data in ("reset", {"competition": "wine"}), ("step", {"program": "import time; time.sleep(50)"}):
        ws.send(json.dumps({"type": kind, "data": data}))
        answer = json.loads(ws.recv())
    print(answer["data"]["observation"]["status"], flush=True)
    time.sleep(60)
"""


@contextmanager
def served(folder, token="", max_programs=2):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [str(port), str(folder / "executions"), token, str(max_programs)]
    process = subprocess.Popen([sys.executable, "-c", SERVE, *arguments])
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except httpx.HTTPError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def client(address, **options):
    return GenericEnvClient(base_url=f"ws://{address}", **options).sync()


def run(environment, program):
    """Runs a program to its end; returns the result and the number of steps that this took."""
    result, asked = environment.step({"program": program}), 1
    while result.observation["status"] == "running":
        result, asked = environment.step({"program": ""}), asked + 1
    return result, asked
