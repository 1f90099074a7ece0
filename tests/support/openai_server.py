"""An OpenAI-compatible endpoint in this process, with a function as its model."""

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class OpenAIServer(ThreadingHTTPServer):
    """
    Serves `/v1/models` and `/v1/chat/completions`. `model` maps a prompt and the maximum number of tokens to an answer
    and its number of tokens; `odd` replaces fields of each answer; `meddle` gets the body of each request before it is
    answered, and if it returns a status, that is the whole answer, with the message `excuse`.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, model: Callable[[str, int], tuple[str, int]], names: tuple[str, ...] = ("frozen",), port=0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.model, self.names = model, names
        self.meddle: Callable[[dict], int | None] = lambda body: None
        self.odd: dict = {}
        self.excuse = "meddled with"
        self.requests: list[dict] = []
        self.in_flight = self.most_in_flight = 0
        self.lock = threading.Lock()
        self.connections: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def kill(self) -> None:
        """Stops answering, also the requests in flight."""
        self.shutdown()
        self.server_close()
        with self.lock:
            for connection in self.connections:
                with suppress(OSError):  # the client has closed it already
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        """Ignores clients that have disconnected."""


class _Handler(BaseHTTPRequestHandler):
    server: OpenAIServer

    def do_GET(self):
        self.reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.server.names]})

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with server.lock:
            server.requests.append(body)
            server.in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.in_flight)
        status = server.meddle(body)
        length = body.get("max_tokens") or body["max_completion_tokens"]
        text, tokens = server.model(body["messages"][0]["content"], length)
        with server.lock:  # before the client gets the answer and sends its next request
            server.in_flight -= 1
        if status is not None:
            return self.reply(status, {"error": {"message": server.excuse}})
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": 1 + tokens}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
        self.reply(200, answer | {"choices": [choice], "usage": usage} | server.odd)

    def reply(self, status, content):
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        if status != 200:
            self.send_header("retry-after-ms", "10")
        self.end_headers()
        self.wfile.write(payload)

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections.add(self.connection)

    def finish(self):
        with self.server.lock:
            self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, *args):
        pass
