"""
A server that samples, and fails, with one training process.

The environment of these tests has no vLLM, so a stand-in for `vllm serve` answers on the same paths with made-up tokens.
TRL's client and the classes that wait for it are the real ones. With the real server: `make test-vllm`.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
import torch
from accelerate import Accelerator
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration

from trl_mle.trainer.engine.vllm_server import VLLMServer, VLLMServerError


PROMPTS = [[5, 6], [5, 6], [7], [7]]


class Answers:
    """Records each request, and gives the path's next planned answer, or a good one."""

    def __init__(self):
        self.seen, self.next = [], {}
        self.going_on = threading.Event()
        self.going_on.set()
        answers = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
                name = self.path.rpartition("/")[2]
                answers.seen.append(name)
                planned = answers.next.pop(name, None)
                if isinstance(planned, int):
                    self.answer({"error": f"no {name}"}, planned)
                elif planned is not None:
                    self.answer(planned)
                elif name == "completions":
                    answers.going_on.wait(30)
                    self.answer({"choices": choices(body["prompt"], body["n"])})
                else:
                    self.answer({"success": True})

            def answer(self, content, code=200):
                content = json.dumps(content).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def choices(prompts, n):
    """Each completion has one token, which numbers the completions of its prompt."""
    logprobs = {"tokens": ["token_id:9"], "token_logprobs": [-0.5], "top_logprobs": [{"token_id:9": -0.5}]}
    return [
        {"prompt_token_ids": ids, "token_ids": [*ids, i][-1:], "logprobs": logprobs}
        for ids in prompts
        for i in range(n)
    ]


@pytest.fixture
def answers():
    answers = Answers()
    yield answers
    answers.going_on.set()
    answers.server.shutdown()
    answers.server.server_close()


@pytest.fixture
def server(answers, request):
    """A `VLLMServer` for a model with two weights; the parameter is its request timeout."""
    client = object.__new__(VLLMClient)  # its __init__ needs vLLM
    client.session, client.base_url, client.model = requests.Session(), answers.url, "tiny"
    client.communicator, client._updating_weights = None, False

    def update_named_params(metadata, named_params):  # the original needs a GPU
        client._start_weight_update()
        answers.seen.append([name for name, _ in named_params])
        client._finish_weight_update()

    client.update_named_params = update_named_params
    generation = object.__new__(VLLMGeneration)
    generation.__dict__ |= {
        "accelerator": Accelerator(cpu=True), "mode": "server", "vllm_client": client, "model": torch.nn.Linear(1, 1),
        "enable_sleep_mode": False, "structured_outputs_regex": None, "generation_kwargs": {}, "logprobs": 0,
        "_weight_metadata": None, "max_completion_length": 4, "repetition_penalty": 1.0,
        "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None,
    }  # fmt: skip
    generation._iter_named_params = lambda: iter(generation.model.named_parameters())
    return VLLMServer(generation, getattr(request, "param", 2))


WEIGHTS = ["start_weight_update", ["weight", "bias"], "finish_weight_update", "reset_prefix_cache"]


def test_it_generates_as_trls_does(server, answers):
    prompt_ids, completion_ids, logprobs, token_ids = server.generate(PROMPTS, None, 2)
    assert prompt_ids == PROMPTS
    assert completion_ids == [[0], [1], [0], [1]]
    assert logprobs == [[[-0.5]]] * 4
    assert token_ids == [[[9]]] * 4
    assert answers.seen == ["completions"]


def test_a_request_goes_on_while_the_trainer_does_something_else(server, answers):
    answers.going_on.clear()
    request = server.ask(PROMPTS, None, 2)
    assert not server.answered(request)
    assert not server.answered(request, 0.05)
    answers.going_on.set()
    with server.expecting(request):
        # the arguments do not matter: the prompts are those of the request
        assert server.generate([], None, 1)[1] == [[0], [1], [0], [1]]
    assert answers.seen == ["completions"]


def test_an_evaluation_does_not_take_what_was_asked_for_training(server, answers):
    request = server.ask(PROMPTS, None, 2)
    assert server.generate([[8]], None, 1)[0] == [[8]]
    assert server.collect(request)[0] == PROMPTS
    assert answers.seen == ["completions", "completions"]


def test_no_request_is_in_flight_while_weights_change(server, answers):
    answers.going_on.clear()
    request = server.ask(PROMPTS, None, 2)
    threading.Timer(0.3, answers.going_on.set).start()
    server.sync_weights()
    assert server.answered(request)
    assert answers.seen == ["completions", *WEIGHTS]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (400, r"^the vLLM server failed: HTTPError: 400: .*no completions"),
        ({"choices": choices([[5, 6], [7]], 2)[:3]}, "failed: ValueError: 3 of 4 completions"),
        (
            {"choices": [choice | {"token_ids": None} for choice in choices([[5, 6], [7]], 2)]},
            "failed: ValueError: 0 of 4",
        ),
        ({"surprise": 1}, "failed: KeyError: 'choices'"),
    ],
    ids=["status", "half", "null", "something else"],
)
def test_what_fails_is_the_servers_failure(server, answers, failure, message):
    answers.next["completions"] = failure
    with pytest.raises(VLLMServerError, match=message):
        server.generate(PROMPTS, None, 2)


@pytest.mark.parametrize("server", [0.2], indirect=True)
def test_one_that_hangs(server, answers):
    answers.going_on.clear()
    with pytest.raises(VLLMServerError, match="failed: ReadTimeout"):
        server.generate(PROMPTS, None, 2)
    assert answers.seen == ["completions"]


def test_one_that_is_gone(server, answers):
    answers.server.shutdown()
    answers.server.server_close()
    with pytest.raises(VLLMServerError, match="failed: ConnectionError"):
        server.sync_weights()


@pytest.mark.parametrize("name", ["start_weight_update", "finish_weight_update", "reset_prefix_cache"])
def test_an_update_that_breaks_off(server, answers, name):
    gathered = []
    own = server._generation._iter_named_params
    server._generation._iter_named_params = lambda: (gathered.append(item[0]) or item for item in own())
    answers.next[name] = 500
    with pytest.raises(VLLMServerError, match=f"500: .*no {name}"):
        server.sync_weights()
    # Once for their names and shapes, and then whole: under ZeRO-3 all processes must take part
    assert gathered == ["weight", "bias"] * 2
