"""How a program's init counts memory that no process shows."""

import contextlib
import mmap
import os
import select
import socket

from trl_mle.execution.inside import usage


def held(**job):
    return usage.held_bytes({"namespaces": False, "memory_mb": 1024, "socket_bytes": 1 << 20, **job}, [os.getpid()])


def test_sockets_and_what_is_waited_for_and_mappings_are_counted():
    with contextlib.ExitStack() as stack:
        before = held()
        for _ in range(5):
            stack.enter_context(contextlib.closing(socket.socketpair()[0]))
        assert held() - before >= 5 << 20  # their other ends are closed already
        assert 1 << 20 < held(memory_mb=1) < before + (3 << 20)  # no more are counted than matter
        sockets = [stack.enter_context(socket.socket()) for _ in range(50)]
        before = held()
        for _ in range(40):
            epoll = stack.enter_context(contextlib.closing(select.epoll()))
            for each in sockets:
                epoll.register(each)
        assert held() - before >= 40 * 50 * usage.EVENT_BYTES
        before = held()
        mapped = [mmap.mmap(-1, mmap.PAGESIZE, prot=1 + 2 * (i % 2)) for i in range(1000)]
        assert held() - before >= 900 * usage.MAPPING_BYTES
        del mapped
