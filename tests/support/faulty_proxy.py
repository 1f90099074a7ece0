"""A proxy in front of a real vLLM server that fails once."""

import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FaultyProxy(ThreadingHTTPServer):
    """Forwards requests. Of the answer to the `faulty`-th request for completions, it sends only half."""

    daemon_threads = True

    def __init__(self, server_url, faulty):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server_url, self.faulty = server_url, faulty
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *error):
        self.shutdown()
        super().__exit__(*error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.forward(None, {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.forward(body, {"Content-Type": "application/json"})

    def forward(self, body, headers):
        request = urllib.request.Request(self.server.server_url + self.path, body, headers)
        with urllib.request.urlopen(request) as answer:
            content = answer.read()
        self.server.faulty -= self.path == "/v1/completions"
        self.close_connection = self.path == "/v1/completions" and self.server.faulty == 0
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.close_connection else content)

    def log_message(self, *args):
        pass
