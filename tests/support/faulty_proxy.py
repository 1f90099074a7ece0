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
            For each path, the faults of its requests in order: `"hang"` (no answer for a minute), `"drop"` (closes the
            connection), `"half"` (half of the completions), `"cut"` (half of the answer), `"error"` (500), `"refuse"`
            (400), or `None`.
    """

    def __init__(self, url, faults=None):
        self.faults = faults or {}
        self.seen = []
        self.ended = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.hand_on(None)

            def do_POST(self):
                self.hand_on(self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def hand_on(self, body):
                path = self.path.partition("?")[0]
                left = proxy.faults.get(path)
                fault = left.pop(0) if left else None
                if fault is not None:
                    proxy.seen.append(fault)
                if fault == "hang":
                    proxy.ended.wait(60)
                if fault in ("hang", "drop"):
                    self.close_connection = True
                    return
                if fault in ("error", "refuse"):
                    self.answer(500 if fault == "error" else 400, b'{"error": "injected"}')
                    return
                headers = {"Content-Type": "application/json"} if body is not None else {}
                try:
                    with urllib.request.urlopen(urllib.request.Request(url + self.path, body, headers)) as got:
                        code, content = got.status, got.read()
                except urllib.error.HTTPError as error:
                    code, content = error.code, error.read()
                except OSError:
                    self.answer(502, b"")
                    return
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

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()
