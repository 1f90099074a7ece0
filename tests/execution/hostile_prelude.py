"""What stands before each program in `hostile/`, as text, with all that they import of the standard library."""

# ruff: noqa: F401
import array
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress


libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    """The result of a call of libc, if it is none of a failure."""
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def attempt(name, action):
    try:
        got = action()
    except Exception as error:
        print("failed", name, type(error).__name__)
    else:
        print("LOOT", name, repr(got)[:200])
