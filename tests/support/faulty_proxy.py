"""A proxy in front of a real vLLM server that fails as servers and networks do."""

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FaultyProxy:
    """
    Forwards requests. `faults` has, for each path, the faults of its requests in order: `"half"` (half of the
    completions), `"cut"` (half of the answer), `"refuse"` (400), or `None`.
    """

    def __init__(self, url, faults):
        self.url, self.faults = url, faults

    def __enter__(self):
        proxy, server_url = self, self.url

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.forward(None)

            def do_POST(self):
                self.forward(self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def forward(self, body):
                faults = proxy.faults.get(self.path.partition("?")[0])
                fault = faults.pop(0) if faults else None
                if fault == "refuse":
                    return self.answer(400, b'{"error": "injected"}')
                headers = {"Content-Type": "application/json"} if body is not None else {}
                try:
                    with urllib.request.urlopen(urllib.request.Request(server_url + self.path, body, headers)) as got:
                        code, content = got.status, got.read()
                except urllib.error.HTTPError as error:
                    code, content = error.code, error.read()
                if fault == "half":
                    answer = json.loads(content)
                    answer["choices"] = answer["choices"][: len(answer["choices"]) // 2]
                    content = json.dumps(answer).encode()
                self.answer(code, content, len(content) // 2 if fault == "cut" else None)

            def answer(self, code, content, cut=None):
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[:cut])
                self.close_connection = cut is not None

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()
