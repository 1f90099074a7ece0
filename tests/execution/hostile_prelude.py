"""What stands before each program in `hostile/`, as text, with all that it imports for them."""

import ctypes
import os  # noqa: F401
import socket  # noqa: F401
import time  # noqa: F401
from contextlib import suppress  # noqa: F401


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
