"""Options that `trl-mle serve` refuses; tests/environments/test_server.py tests the server."""

import socket

import pytest

from trl_mle.scripts.serve import ServeArguments, serve


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"competitions": []}, "--competitions: name at least one"),
        ({"max_sessions": 0}, "--max_sessions must be at least 1, got 0"),
        ({"port": 99999}, "--port must be from 1 to 65535, got 99999"),
        ({"port": 0}, "--port must be from 1 to 65535, got 0"),  # the clients could not know which
        ({"host": "0.0.0.0"}, "--host 0.0.0.0 can be reached from other machines: set TRL_MLE_TOKEN"),
        ({"host": "machine.example"}, "--host machine.example can be reached from other machines"),
    ],
)
def test_what_cannot_be_asked(monkeypatch, options, message):
    monkeypatch.delenv("TRL_MLE_TOKEN", raising=False)
    with pytest.raises(ValueError, match=message):
        ServeArguments(**{"competitions": ["wine"]} | options)


def test_beyond_this_machine_with_a_token(monkeypatch):
    monkeypatch.setenv("TRL_MLE_TOKEN", "secret")
    ServeArguments(competitions=["wine"], host="0.0.0.0")
    monkeypatch.delenv("TRL_MLE_TOKEN")
    for host in ("localhost", "127.0.0.1", "::1"):
        ServeArguments(competitions=["wine"], host=host)


def test_a_port_that_is_taken():
    pytest.importorskip("openenv", reason="make test-openenv installs it")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            serve(ServeArguments(competitions=["wine"], port=port))
