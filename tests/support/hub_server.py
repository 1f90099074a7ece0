"""
A server in this process that implements the part of the Hub's API that pushing and downloading need: who am I, create a
repository or a branch, preupload, LFS, commit; info on a repository, download a file.

It replaces https://huggingface.co, which tests cannot reach. The client is the real `huggingface_hub`, with
`HF_ENDPOINT`.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


TOKEN = "hf_test"
HEAD = "5" * 40  # the commit of every download
LFS_SUFFIXES = (".bin", ".pt", ".pth", ".safetensors", ".parquet")


class HubServer:
    """
    Holds the files of each repository's branches by `("<type>s/<owner>/<name>", branch)`. `meddle` gets method and
    path of each request; if it returns a status, that is the whole answer.
    """

    def __init__(self):
        self.branches: dict[tuple[str, str], dict[str, bytes]] = {}
        self.commits: list[tuple[str, str, str]] = []
        self.requests: list[str] = []
        self.objects: dict[str, bytes] = {}
        self.downloads: list[str] = []
        self.lock = threading.Lock()
        self.meddle: Callable[[str, str], int | None] = lambda method, path: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.hub = self
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        hub, path = self.server.hub, unquote(self.path.partition("?")[0])
        body = self._body()
        with hub.lock:
            hub.requests.append(f"{self.command} {path}")
            status = hub.meddle(self.command, path)
            if status is not None:
                return self._reply(status, {"error": "meddled with"})
            if path.startswith("/lfs/"):  # the upload URL from `lfs_batch`, which takes no token, like S3
                return self._store(path, body)
            if self.headers.get("authorization") != f"Bearer {TOKEN}":
                return self._reply(401, {"error": "Invalid user token."})
            for pattern, answer in ROUTES:
                if match := re.fullmatch(pattern, f"{self.command} {path}"):
                    return answer(self, *match.groups(), body=body)
        return self._reply(404, {"error": f"no such thing: {self.command} {path}"})

    do_GET = do_POST = do_PUT = do_HEAD = answer

    def whoami(self, body):
        token = {"role": "write"}
        self._reply(200, {"type": "user", "name": "user", "orgs": [{"name": "org"}], "auth": {"accessToken": token}})

    def create(self, body):
        asked = json.loads(body)
        kind = asked.get("type") or "model"
        name = f"{asked.get('organization') or 'user'}/{asked['name']}"
        url = f"{self.server.hub.url}/{'' if kind == 'model' else kind + 's/'}{name}"
        if (f"{kind}s/{name}", "main") in self.server.hub.branches:
            return self._reply(409, {"error": "You already created this repo", "url": url})
        self.server.hub.branches[f"{kind}s/{name}", "main"] = {}
        self._reply(200, {"url": url, "name": name})

    def create_branch(self, repository, branch, body):
        branches, start = self.server.hub.branches, json.loads(body or "{}").get("startingPoint", "main")
        if (repository, branch) in branches:
            return self._reply(409, {"error": "Reference already exists"})
        branches[repository, branch] = dict(branches[repository, start])
        self._reply(200, {})

    def info(self, repository, branch=None, *, body):
        hub, sha = self.server.hub, branch or "main"
        if re.fullmatch("[0-9a-f]{40}", sha):  # the only commit that is named by its hash
            sha = "main"
        if (repository, sha) not in hub.branches:
            return self._reply(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        files = [{"rfilename": name} for name in hub.branches[repository, sha]]
        name = repository.partition("/")[2]
        self._reply(200, {"id": name, "sha": HEAD, "siblings": files, "private": False, "tags": [], "downloads": 0})

    def tree(self, repository, branch, body):
        files = self.server.hub.branches[repository, "main"]
        entries = [
            {"type": "file", "path": name, "size": len(data), "oid": _oid(data)} for name, data in files.items()
        ]
        self._reply(200, entries)

    def download(self, repository, branch, path, body):
        data = self.server.hub.branches[repository, "main"].get(path)
        if data is None:
            return self._reply(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
        self.server.hub.downloads.append(path)
        self._reply(200, data, {"etag": f'"{_oid(data)}"', "x-repo-commit": HEAD})

    def validate(self, body):
        assert json.loads(body)["content"].startswith("---\n")
        self._reply(200, {"errors": [], "warnings": []})

    def preupload(self, repository, branch, body):
        asked = json.loads(body)
        ignored = tuple(asked.get("gitIgnore", "").splitlines())  # folders only
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(LFS_SUFFIXES) else "regular",
                "shouldIgnore": bool(ignored) and file["path"].startswith(ignored),
            }
            for file in asked["files"]
        ]
        self._reply(200, {"files": files})

    def lfs_batch(self, repository, body):
        hub = self.server.hub
        objects = []
        for item in json.loads(body)["objects"]:
            upload = {"upload": {"href": f"{hub.url}/lfs/{repository}/{item['oid']}", "header": {}}}
            objects.append(item | ({} if item["oid"] in hub.objects else {"actions": upload}))
        self._reply(200, {"transfer": "basic", "objects": objects})

    def _store(self, path, body):
        oid = path.rpartition("/")[2]
        if hashlib.sha256(body).hexdigest() != oid:
            return self._reply(400, {"error": "these are other bytes"})
        self.server.hub.objects[oid] = body
        self._reply(200, {})

    def commit(self, repository, branch, body):
        hub = self.server.hub
        if (repository, branch) not in hub.branches:
            return self._reply(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
        files = hub.branches[repository, branch]
        for line in body.decode().splitlines():
            key, value = (entry := json.loads(line))["key"], entry["value"]
            if key == "header":
                hub.commits.append((repository, branch, value["summary"]))
            elif key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = hub.objects[value["oid"]]
            else:
                raise NotImplementedError(key)
        oid = f"{len(hub.commits):040x}"
        page = f"{hub.url}/{repository.removeprefix('models/')}/commit/{oid}"
        self._reply(200, {"commitUrl": page, "commitOid": oid})

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _reply(self, status, content, headers=None):
        payload = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {
            "content-type": "application/json",
            "content-length": str(len(payload)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)

    def log_message(self, *args):
        pass


def _oid(data):
    return hashlib.sha1(data).hexdigest()


_REPOSITORY = r"((?:models|datasets)/[^/]+/[^/]+)"
ROUTES = [
    (r"GET /api/whoami-v2", _Handler.whoami),
    (r"POST /api/repos/create", _Handler.create),
    (r"POST /api/validate-yaml", _Handler.validate),
    (rf"POST /api/{_REPOSITORY}/branch/(.+)", _Handler.create_branch),
    (rf"POST /api/{_REPOSITORY}/preupload/(.+)", _Handler.preupload),
    (rf"POST /api/{_REPOSITORY}/commit/(.+)", _Handler.commit),
    (rf"GET /api/{_REPOSITORY}", _Handler.info),
    (rf"GET /api/{_REPOSITORY}/revision/(.+)", _Handler.info),
    (rf"GET /api/{_REPOSITORY}/tree/([^/]+)", _Handler.tree),
    (rf"(?:GET|HEAD) /{_REPOSITORY}/resolve/([^/]+)/(.+)", _Handler.download),
    (r"POST /(.+)\.git/info/lfs/objects/batch", _Handler.lfs_batch),
]
