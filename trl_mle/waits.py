"""Says what a start is waiting for, if that takes long."""

import contextlib
import logging
import threading
from collections.abc import Iterator


logger = logging.getLogger(__name__)


@contextlib.contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Logs what the caller waits for, once it has waited for five seconds."""
    timer = threading.Timer(5, lambda: logger.warning("waiting for %s", what))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
