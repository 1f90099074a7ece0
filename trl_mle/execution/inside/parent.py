"""The warm parent: imports the usual packages, and forks an init for each program that it receives."""

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
from typing import Any

from . import kernel
from .init import init, send_report


def serve(control: socket.socket, fixed: dict[str, Any], packages: list[str]) -> None:
    for name in packages:
        with contextlib.suppress(Exception):  # programs that import a missing or broken one see why
            importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to handle
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no init needs reaping
    if os.fork() == 0:  # libraries end their threads before a fork
        os._exit(0)
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("the packages imported at start leave threads running, which do not survive a fork: name others")
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page in every child
    fixed["ids"] = os.getuid(), os.getgid()
    control.send(b"ready")
    while True:
        message, fds, _, _ = socket.recv_fds(control, 16, 1)
        if not message:
            os._exit(0)  # the caller closed its end or died; as pid 1, this process takes all programs with it
        with socket.socket(fileno=fds[0]) as job_socket:
            try:
                if (kernel.fork_into_namespaces() if fixed["namespaces"] else os.fork()) == 0:
                    control.close()
                    init(job_socket, fixed)
            except OSError as error:
                send_report(job_socket, {"error": f"{type(error).__name__}: {error}"})
