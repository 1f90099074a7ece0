import threading

import pytest
from support.openai_server import OpenAIServer
from support.programs import ASKED_ABOUT, ideal

from trl_mle.instrumentation import MILESTONES, LmInstrumenter
from trl_mle.models import EndpointModel, LanguageModelError
from trl_mle.models.endpoint import server_address


def programs(count):
    return [ASKED_ABOUT.format(number=number) for number in range(1, count + 1)]


def number_of(body):
    """The number of the program that a request is about."""
    return int(body["messages"][0]["content"].partition("(C=")[2].partition(")")[0])


@pytest.fixture
def server():
    server = OpenAIServer(ideal)
    yield server
    server.kill()


def answered(completions):
    return [completion.text is not None for completion in completions]


def message(content):
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("mode", ["quote", "rewrite"])
def test_endpoint_instruments(server, mode):
    instrumenter = LmInstrumenter(EndpointModel(server.url), mode)
    instrumented = instrumenter.instrument_many(programs(3))
    assert [program.milestones for program in instrumented] == [MILESTONES] * 3
    assert [program.original for program in instrumented] == programs(3)
    metrics = instrumenter.metrics()
    assert (metrics["lm_rate"], metrics["tokens_per_program"]) == (1.0, 40 if mode == "quote" else 300)
    assert {body["temperature"] for body in server.requests} == {0.0}
    instrumenter.instrument_many(programs(2) * 2)  # equal ones of a batch are asked about once
    assert len(server.requests) == 5


def test_no_more_than_64_requests_at_a_time(server):
    together = threading.Barrier(64)

    def meddle(body):
        together.wait(timeout=30)

    server.meddle = meddle
    assert all(answered(EndpointModel(server.url).complete(programs(192), 8)))
    assert server.most_in_flight == 64


def test_late_answers_do_not_count(server, caplog):
    release = threading.Event()
    server.meddle = lambda body: release.wait(60) and None if number_of(body) > 3 else None
    model = EndpointModel(server.url, deadline_s=2.0)
    assert answered(model.complete(programs(5)[3:], 8, max_time_s=0.2)) == [False] * 2
    assert "answered nothing" not in caplog.text  # because that was not the deadline
    instrumenter = LmInstrumenter(model)
    instrumented = instrumenter.instrument_many(programs(5))
    release.set()
    assert all(program.milestones for program in instrumented)
    metrics = instrumenter.metrics()
    assert (metrics["lm_rate"], metrics["ast_rate"], metrics["rejected/no_answer"]) == (0.6, 0.4, 0.4)
    instrumenter.instrument_many(programs(5))  # the next batch is not affected
    assert instrumenter.metrics()["lm_rate"] == 1.0


def test_dead_endpoint_costs_one_deadline(server, caplog):
    instrumenter = LmInstrumenter(EndpointModel(server.url, deadline_s=1.0, max_retries=0))
    server.kill()
    instrumented = instrumenter.instrument_many(programs(4))
    assert all(program.milestones for program in instrumented)
    assert instrumenter.metrics()["ast_rate"] == 1.0
    assert f"frozen at {server.url} answered nothing: " in caplog.text


@pytest.mark.parametrize("model", ["c", None])
def test_endpoint_without_the_model(server, model):
    server.names = ("a", "b")
    with pytest.raises(LanguageModelError, match="serves a, b: name one"):
        EndpointModel(server.url, model)


@pytest.mark.parametrize("url", ["localhost:8000/v1", "http://localhost:port/v1", None])
def test_endpoint_does_not_answer(server, url):
    server.kill()
    with pytest.raises(LanguageModelError, match=r"^the endpoint .* does not answer: .+$"):
        EndpointModel(server.url if url is None else url)


@pytest.mark.parametrize(
    ("odd", "answer"),
    [
        ({"usage": {"prompt_tokens": None, "completion_tokens": None, "total_tokens": 12}}, ("the answer", 0, 0)),
        (message(None) | {"usage": None}, ("", 0, 0)),
        ({"choices": ["the answer"]}, (None, 0, 0)),
    ],
)
def test_odd_answers(server, odd, answer):
    """Missing counts are 0. An answer without text is empty; one that cannot be read is none."""
    server.model, server.odd = lambda prompt, max_tokens: ("the answer", 5), odd
    [completion] = EndpointModel(server.url).complete(["Hi"], 8)
    assert (completion.text, completion.tokens, completion.prompt_tokens) == answer


def test_a_model_that_calls_the_length_otherwise(server):
    """As OpenAI's models that reason do; it is asked by that name at once from then on."""
    server.meddle = lambda body: 400 if "max_tokens" in body else None
    server.excuse = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    model = EndpointModel(server.url)
    for number in (10, 20):
        assert all(answered(model.complete(programs(5), number)))
    asked = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in server.requests]
    assert set(asked[:-5]) == {(10, None), (None, 10)}
    assert asked[-5:] == [(None, 20)] * 5


def test_reason_for_no_answer(server):
    """One that is refused does not end the others."""
    model = EndpointModel(server.url)
    server.meddle, server.excuse = lambda body: {1: 402, 2: 400}.get(number_of(body)), "no\nmoney" * 99
    errors = [completion.error for completion in model.complete(programs(3), 8)]
    assert [error[:15] for error in errors] == ["Error code: 402", "Error code: 400", ""]
    assert all(len(error.splitlines()) < 2 and len(error) < 210 for error in errors)


def test_endpoint_must_not_be_the_policys(server):
    model = EndpointModel(server.url)
    model.check_is_not("localhost:1")
    assert EndpointModel(server.url.replace("//", "//user:secret@")).identity == f"frozen at {server.url}"
    with pytest.raises(LanguageModelError, match="is the vLLM server of the policy"):
        model.check_is_not(server.url.replace("127.0.0.1", "localhost"))
    assert server_address("https://gpu-1/v1") == server_address("https://gpu-1:443")
