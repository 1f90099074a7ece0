import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from huggingface_hub import constants

from trl_mle.models import look_up


class Hub(BaseHTTPRequestHandler):
    """A Hub that has only the model `org/there`."""

    def do_GET(self):
        known = self.path == "/api/models/org/there"
        content = json.dumps({"id": "org/there"} if known else {"error": "Repository not found"}).encode()
        self.send_response(200 if known else 401)
        if not known:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def hub(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    server.server_close()


def test_what_the_hub_has(hub, tmp_path):
    look_up("org/there")
    look_up(str(tmp_path))  # the Hub is not asked about folders
    with pytest.raises(OSError, match=r"^the Hub has no such model"):
        look_up("org/elsewhere")


def test_a_hub_that_does_not_answer_is_asked_once(hub, caplog):
    hub.shutdown()
    hub.server_close()
    with pytest.raises(OSError, match=r"^the Hub does not answer .*: check the network, or name a folder$"):
        look_up("org/there")
    assert not caplog.records


def test_no_id_of_the_hub():
    with pytest.raises(ValueError, match="Repo id"):
        look_up("a/b/c")
