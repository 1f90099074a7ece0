"""Started by path, as the warm parent of programs."""

import importlib
import json
import os
import socket
import sys


if __name__ == "__main__":
    # The modules of this folder import each other as a package, but the package around it is not in the sandbox
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(folder))
    parent = importlib.import_module(f"{os.path.basename(folder)}.parent")
    del sys.path[0]
    settings = json.load(sys.stdin)
    parent.serve(socket.socket(fileno=int(sys.argv[1])), settings["fixed"], settings["packages"])
