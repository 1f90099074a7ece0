"""Other frameworks on one server at the same time: verifiers' bundled OpenEnv task set and an Inspect task."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from itertools import chain, repeat
from pathlib import Path

import pytest


pytest.importorskip("openenv", reason="make test-openenv installs it")
pytest.importorskip("verifiers", reason="make test-openenv installs it")
pytest.importorskip("inspect_ai", reason="make test-openenv installs it")

import inspect_ai
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.solver import solver
from openenv import GenericEnvClient
from support.openai_server import OpenAIServer
from support.openenv_server import SLOW, SUBMIT, VANISH, client, run, served


def start_verifiers(folder, address, model_url):
    """Starts verifiers' command `eval` on its own task set; its traces will be in `folder/run`."""
    # Without a sandbox its harness is a script, for which pip installs uv, and uv an interpreter. Here both name this
    # interpreter, which has everything that the script imports, so that nothing is downloaded.
    programs = folder / ".local" / "bin"
    programs.mkdir(parents=True)
    for name in ("pip", "uv"):
        (programs / name).write_text(f"#!/bin/sh\necho '{sys.executable}'\n")
        (programs / name).chmod(0o755)
    config = {
        "env": {
            "taskset": {"id": "openenv", "base_url": f"http://{address}", "resets": [{"competition": "wine"}]},
            "player": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}},
        },
        "model": "frozen",
        "client": {"base_url": model_url},
        "sampling": {"max_tokens": 1000},
        "output_dir": str(folder),
        "run": {"name": "run"},
        "serve": None,  # in the process of the command, not in workers
        "rich": None,  # no dashboard
        "push": False,  # nothing is uploaded
    }
    (folder / "eval.json").write_text(json.dumps(config))
    command = [Path(sys.executable).with_name("eval"), "@", folder / "eval.json"]
    return subprocess.Popen(command, cwd=folder, env={**os.environ, "HOME": str(folder)})


@solver
def one_program(address):
    """One session: the sample names the competition, and the model's answer is the program."""

    async def solve(state, generate):
        async with GenericEnvClient(base_url=f"ws://{address}") as environment:
            task = await environment.reset(competition=state.input_text)
            state.user_prompt.text = task.observation["prompt"]
            state = await generate(state)
            result = await environment.step({"program": state.output.completion})
            while result.observation["status"] == "running":
                result = await environment.step({"program": ""})
        state.metadata["reward"] = result.reward
        return state

    return solve


@scorer(metrics=[mean()])
def reward():
    async def score(state, target):
        return Score(value=state.metadata["reward"])

    return score


def test_verifiers_and_inspect_at_the_same_time_while_a_third_client_is_killed(tmp_path):
    """Both are in the middle of an episode when a client that holds one of the two slots is killed."""
    with served(tmp_path, max_programs=1) as address:

        def third_client():
            command = [sys.executable, "-c", VANISH, address]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as vanishing:
                assert vanishing.stdout.readline().strip() == "running"
                vanishing.kill()  # SIGKILL

        both = threading.Barrier(2, action=third_client, timeout=120)  # once both models are asked for a program
        answers = chain([SLOW], repeat('{"program": ""}'))  # polls while it runs

        def verifiers_model(prompt, max_tokens):
            if len(endpoint.requests) == 1:
                both.wait()
            return next(answers), 1

        async def inspect_model(messages, *_):
            assert messages[-1].text.startswith("Kaggle competition: diabetes\n")
            await asyncio.to_thread(both.wait)
            output = ModelOutput.from_content("mockllm/model", SLOW)
            output.usage = ModelUsage()  # otherwise it downloads a tokenizer to count tokens
            return output

        endpoint = OpenAIServer(verifiers_model)
        evaluation = start_verifiers(tmp_path, address, endpoint.url)
        try:
            task = inspect_ai.Task(dataset=[Sample("diabetes")], solver=one_program(address), scorer=reward())
            model = get_model("mockllm/model", custom_outputs=inspect_model)
            (log,) = inspect_ai.eval(task, model=model, display="none", log_dir=str(tmp_path / "inspect"))
            assert log.status == "success", log.error
            assert evaluation.wait(timeout=120) == 0
        finally:
            evaluation.kill()
            endpoint.kill()

        expected = {}
        with client(address) as holding, client(address) as environment:
            holding.reset(competition="wine")
            running = holding.step({"program": "import time; time.sleep(50)"})
            assert running.observation["status"] == "running"
            began = time.monotonic()
            for competition in ("wine", "diabetes"):  # in the slot that the killed client had
                environment.reset(competition=competition)
                expected[competition] = run(environment, SUBMIT)[0].reward  # the same submission
            assert time.monotonic() - began < 20

    ((trace,),) = (json.loads(line)["traces"] for line in (tmp_path / "run" / "traces.jsonl").open())
    assert trace["ok"]
    assert trace["rewards"]["openenv_reward"]["score"] == expected["wine"]
    statuses = [json.loads(node["message"]["content"])["observation"]["status"] for node in trace["nodes"][::2]]
    assert statuses == ["task"] + ["running"] * (len(endpoint.requests) - 1)
    assert len(statuses) >= 2
    assert log.results.scores[0].metrics["mean"].value == expected["diabetes"]
