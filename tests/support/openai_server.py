"""An OpenAI-compatible endpoint in this process, with a function as its model."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class OpenAIServer:
    """
    Serves `/v1/models` and `/v1/chat/completions`. `model` maps a prompt and the maximum number of tokens to an answer
    and its number of tokens; `odd` replaces fields of each answer; `meddle` gets the body of each request before it is
    answered, and if it returns a status, that is the whole answer, with the message `excuse`.
    """

    def __init__(self, model: Callable[[str, int], tuple[str, int]], names: tuple[str, ...] = ("frozen",)):
        self.model, self.names = model, names
        self.meddle: Callable[[dict], int | None] = lambda body: None
        self.odd: dict = {}
        self.excuse = "meddled with"
        self.requests: list[dict] = []
        self.in_flight = self.most_in_flight = 0
        self._lock = threading.Lock()
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Starts the server, on the same port each time."""
        self._server = _HTTPServer(("127.0.0.1", self._port), _Handler)
        self._server.endpoint = self
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def kill(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    endpoint: OpenAIServer

    def handle_error(self, request, client_address):
        """Ignores clients that have disconnected."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.endpoint.names]})

    def do_POST(self):
        endpoint = self.endpoint
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with endpoint._lock:
            endpoint.requests.append(body)
            endpoint.in_flight += 1
            endpoint.most_in_flight = max(endpoint.most_in_flight, endpoint.in_flight)
        status = endpoint.meddle(body)
        length = body.get("max_tokens") or body["max_completion_tokens"]
        text, tokens = endpoint.model(body["messages"][0]["content"], length)
        with endpoint._lock:  # before the client gets the answer and sends its next request
            endpoint.in_flight -= 1
        if status is not None:
            return self.reply(status, {"error": {"message": endpoint.excuse}})
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": 1 + tokens}
        self.reply(
            200,
            {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
            | {"choices": [choice], "usage": usage}
            | endpoint.odd,
        )

    def reply(self, status, content):
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        if status != 200:
            self.send_header("retry-after-ms", "10")
        self.end_headers()
        self.wfile.write(payload)

    @property
    def endpoint(self) -> OpenAIServer:
        return self.server.endpoint

    def log_message(self, *args):
        pass
