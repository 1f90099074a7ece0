"""
A server in this process that implements the part of the Hub's API that pushing and downloading need. It replaces
https://huggingface.co, which tests cannot reach. The client is the real `huggingface_hub`, with `HF_ENDPOINT`.
"""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


TOKEN = "hf_test"
HEAD = "5" * 40  # the commit of every download
LFS_SUFFIXES = (".bin", ".pt", ".pth", ".safetensors", ".parquet")


class HubServer(ThreadingHTTPServer):
    """
    Holds the files of each repository's branches by `("<type>s/<owner>/<name>", branch)`. Routes return status,
    content, and headers. Files of the repository `user/broken` are too large.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.branches: dict[tuple[str, str], dict[str, bytes]] = {}
        self.commits = 0
        self.objects: dict[str, bytes] = {}
        self.downloads: list[str] = []
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def answer(self, method, path, token, body):
        if path.startswith("/lfs/user/broken/"):
            return 413, {"error": "too large"}
        if path.startswith("/lfs/"):  # the upload URL from `lfs_batch`, which takes no token, like S3
            return self.store(path, body)
        if token != f"Bearer {TOKEN}":
            return 401, {"error": "Invalid user token."}
        for pattern, route in ROUTES:
            if match := re.fullmatch(pattern, f"{method} {path}"):
                return route(self, *match.groups(), body=body)
        return 404, {"error": f"no such thing: {method} {path}"}

    def whoami(self, body):
        token = {"role": "write"}
        return 200, {"type": "user", "name": "user", "orgs": [{"name": "org"}], "auth": {"accessToken": token}}

    def create(self, body):
        options = json.loads(body)
        kind = options.get("type") or "model"
        name = f"{options.get('organization') or 'user'}/{options['name']}"
        url = f"{self.url}/{'' if kind == 'model' else kind + 's/'}{name}"
        if (f"{kind}s/{name}", "main") in self.branches:
            return 409, {"error": "You already created this repo", "url": url}
        self.branches[f"{kind}s/{name}", "main"] = {}
        return 200, {"url": url, "name": name}

    def create_branch(self, repository, branch, body):
        if (repository, branch) in self.branches:
            return 409, {"error": "Reference already exists"}
        start = json.loads(body or "{}").get("startingPoint", "main")
        self.branches[repository, branch] = dict(self.branches[repository, start])
        return 200, {}

    def info(self, repository, branch="main", *, body):
        if re.fullmatch("[0-9a-f]{40}", branch):  # the only commit that is named by its hash
            branch = "main"
        if (repository, branch) not in self.branches:
            return 404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"}
        files = [{"rfilename": name} for name in self.branches[repository, branch]]
        name = repository.partition("/")[2]
        return 200, {"id": name, "sha": HEAD, "siblings": files, "private": False, "tags": [], "downloads": 0}

    def tree(self, repository, branch, body):
        files = self.branches[repository, "main"].items()
        return 200, [{"type": "file", "path": name, "size": len(data), "oid": _oid(data)} for name, data in files]

    def download(self, repository, branch, path, body):
        data = self.branches[repository, "main"].get(path)
        if data is None:
            return 404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"}
        self.downloads.append(path)
        return 200, data, {"etag": f'"{_oid(data)}"', "x-repo-commit": HEAD}

    def validate(self, body):
        return 200, {"errors": [], "warnings": []}

    def preupload(self, repository, branch, body):
        options, files = json.loads(body), []
        ignored = tuple(filter(None, options.get("gitIgnore", "").splitlines()))  # folders only
        for path in (file["path"] for file in options["files"]):
            mode = "lfs" if path.endswith(LFS_SUFFIXES) else "regular"
            files.append({"path": path, "uploadMode": mode, "shouldIgnore": path.startswith(ignored)})
        return 200, {"files": files}

    def lfs_batch(self, repository, body):
        objects = []
        for item in json.loads(body)["objects"]:
            upload = {"upload": {"href": f"{self.url}/lfs/{repository}/{item['oid']}", "header": {}}}
            objects.append(item | ({} if item["oid"] in self.objects else {"actions": upload}))
        return 200, {"transfer": "basic", "objects": objects}

    def store(self, path, body):
        oid = path.rpartition("/")[2]
        if hashlib.sha256(body).hexdigest() != oid:
            return 400, {"error": "these are other bytes"}
        self.objects[oid] = body
        return 200, {}

    def commit(self, repository, branch, body):
        if (repository, branch) not in self.branches:
            return 404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"}
        files = self.branches[repository, branch]
        for entry in map(json.loads, body.decode().splitlines()):
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.objects[value["oid"]]
        self.commits += 1
        oid = f"{self.commits:040x}"
        return 200, {"commitUrl": f"{self.url}/{repository.removeprefix('models/')}/commit/{oid}", "commitOid": oid}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        path, body = unquote(self.path.partition("?")[0]), self._body()
        with self.server.lock:
            status, content, *headers = self.server.answer(self.command, path, self.headers.get("authorization"), body)
        payload = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        headers = {"content-type": "application/json", "content-length": str(len(payload)), **dict(*headers)}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)

    do_GET = do_POST = do_PUT = do_HEAD = answer

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def log_message(self, *args):
        pass


def _oid(data):
    return hashlib.sha1(data).hexdigest()


_REPOSITORY = r"((?:models|datasets)/[^/]+/[^/]+)"
ROUTES = [
    (r"GET /api/whoami-v2", HubServer.whoami),
    (r"POST /api/repos/create", HubServer.create),
    (r"POST /api/validate-yaml", HubServer.validate),
    (rf"POST /api/{_REPOSITORY}/branch/(.+)", HubServer.create_branch),
    (rf"POST /api/{_REPOSITORY}/preupload/(.+)", HubServer.preupload),
    (rf"POST /api/{_REPOSITORY}/commit/(.+)", HubServer.commit),
    (rf"GET /api/{_REPOSITORY}", HubServer.info),
    (rf"GET /api/{_REPOSITORY}/revision/(.+)", HubServer.info),
    (rf"GET /api/{_REPOSITORY}/tree/([^/]+)", HubServer.tree),
    (rf"(?:GET|HEAD) /{_REPOSITORY}/resolve/([^/]+)/(.+)", HubServer.download),
    (r"POST /(.+)\.git/info/lfs/objects/batch", HubServer.lfs_batch),
]
