"""A proxy in front of a real vLLM server that fails as servers and networks do."""

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FaultyProxy:
    """
    Forwards requests, and fails some of them.

    Args:
        url (`str`):
            URL of the server.
        faults (`dict[str, list[str | None]]`):
            For each path, the faults of its requests in order: `"half"` (half of the completions), `"cut"` (half of
            the answer), `"refuse"` (400), or `None`.
    """

    def __init__(self, url, faults):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.forward(None)

            def do_POST(self):
                self.forward(self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def forward(self, body):
                left = faults.get(self.path.partition("?")[0])
                fault = left.pop(0) if left else None
                headers = {"Content-Type": "application/json"} if body is not None else {}
                try:
                    with urllib.request.urlopen(urllib.request.Request(url + self.path, body, headers)) as answer:
                        code, content = answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    code, content = error.code, error.read()
                if fault == "refuse":
                    code, content = 400, b'{"error": "injected"}'
                if fault == "half":
                    answer = json.loads(content)
                    answer["choices"] = answer["choices"][: len(answer["choices"]) // 2]
                    content = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2 if fault == "cut" else None])
                self.close_connection = fault == "cut"

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()
