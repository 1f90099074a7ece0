"""Started by path: as the warm parent, or, with `--program`, as a program's new interpreter."""

import importlib
import json
import os
import socket
import sys
from typing import Any


def load(module: str) -> Any:
    """Imports a module of this folder as part of its own package, because the package around it is not in the sandbox."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(folder))
    try:
        return importlib.import_module(f"{os.path.basename(folder)}.{module}")
    finally:
        del sys.path[0]


if __name__ == "__main__" and sys.argv[1] == "--program":
    source, started, *fds = json.loads(sys.argv[2])
    with open(source, encoding="utf-8", errors="surrogatepass") as job_file:
        load("run_program").become_program(json.load(job_file), fds, started)
elif __name__ == "__main__":
    settings = json.load(sys.stdin)
    load("parent").serve(socket.socket(fileno=int(sys.argv[1])), settings["fixed"], settings["packages"])
