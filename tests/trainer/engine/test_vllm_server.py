"""
A server that samples, and fails, with one training process.

The environment of these tests has no vLLM, so a stand-in replaces TRL's client. With a real server: `make test-vllm`.
"""

import threading

import pytest
import requests
import torch
from accelerate import Accelerator
from trl.generation.vllm_generation import VLLMGeneration

from trl_mle.trainer.engine.vllm_server import VLLMServer, VLLMServerError


PROMPTS = [[5, 6], [5, 6], [7], [7]]


class Client:
    """Answers with made-up tokens: each completion's only one numbers the completions of its prompt."""

    def __init__(self):
        self.session = requests.Session()
        self.seen, self.failing = [], {}
        self.going_on = threading.Event()
        self.going_on.set()

    def _record(self, name):
        self.seen.append(name)
        if name in self.failing:
            raise self.failing[name]

    def generate(self, prompts, n, **parameters):
        self.going_on.wait(30)
        self._record("completions")
        ids = [[i] for _ in prompts for i in range(n)][: 1 if "half" in self.failing else None]
        return {"prompt_ids": prompts, "completion_ids": ids, "logprobs": [[[-0.5]] for _ in ids]}

    def update_named_params(self, metadata, named_params):
        self._record("start")
        self.seen.append([name for name, _ in named_params])

    def reset_prefix_cache(self):
        self._record("reset")


@pytest.fixture
def client():
    client = Client()
    yield client
    client.going_on.set()


@pytest.fixture
def server(client):
    """A `VLLMServer` for a model with two weights."""
    generation = object.__new__(VLLMGeneration)
    generation.__dict__ |= {
        "accelerator": Accelerator(cpu=True), "mode": "server", "vllm_client": client, "model": torch.nn.Linear(1, 1),
        "enable_sleep_mode": False, "structured_outputs_regex": None, "generation_kwargs": {}, "logprobs": 0,
        "_weight_metadata": None, "max_completion_length": 4, "repetition_penalty": 1.0,
        "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None,
    }  # fmt: skip
    generation._iter_named_params = lambda: iter(generation.model.named_parameters())
    return VLLMServer(generation, 2)


def test_a_request_goes_on_while_the_trainer_does_something_else(server, client):
    client.going_on.clear()
    request = server.ask(PROMPTS, None, 2)
    assert not server.answered(request, 0.05)
    client.going_on.set()
    assert server.generate([[8]], None, 1)[0] == [[8]]  # an evaluation does not take what was asked for training
    server.expected = request  # then the arguments do not matter: the prompts are those of the request
    assert server.generate([], None, 1)[:3] == (PROMPTS, [[0], [1], [0], [1]], [[[-0.5]]] * 4)
    assert client.seen == ["completions", "completions"]


def test_no_request_is_in_flight_while_weights_change(server, client):
    client.going_on.clear()
    request = server.ask(PROMPTS, None, 2)
    threading.Timer(0.3, client.going_on.set).start()
    server.sync_weights()
    assert server.answered(request)
    assert client.seen == ["completions", "start", ["weight", "bias"], "reset"]


def test_what_fails_is_the_servers_failure_or_ours(server, client):
    for error in (requests.ReadTimeout("too late"), KeyError("choices"), ZeroDivisionError()):
        client.failing["completions"] = error
        with pytest.raises(ZeroDivisionError if isinstance(error, ZeroDivisionError) else VLLMServerError):
            server.generate(PROMPTS, None, 2)
    client.failing = {"half": None}
    with pytest.raises(VLLMServerError):
        server.generate(PROMPTS, None, 2)
    response = requests.Response()
    response.status_code = 400
    with pytest.raises(requests.HTTPError):
        client.session.hooks["response"][0](response)


@pytest.mark.parametrize("name", ["start", "reset"])
def test_an_update_that_breaks_off(server, client, name):
    gathered = []
    own = server._generation._iter_named_params
    server._generation._iter_named_params = lambda: (gathered.append(item[0]) or item for item in own())
    client.failing[name] = requests.ConnectionError("gone")
    with pytest.raises(VLLMServerError):
        server.sync_weights()
    # Once for their names and shapes, and then whole: under ZeRO-3 all processes must take part
    assert gathered == ["weight", "bias"] * 2
