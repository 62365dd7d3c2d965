"""What libraries that read images only write to their logs: that something is lost."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def listening(name: str, level: int = logging.ERROR) -> Iterator[list[str]]:
    """Yield a list of what this thread writes to a log, which then stays silent.

    Parameters
    ----------
    name : str
        That of the log.
    level : int
        What is less serious is not heard; it is silent all the same.
    """
    here, heard = threading.get_ident(), list[str]()

    def listen(record: logging.LogRecord) -> bool:
        if record.thread != here:
            return True
        if record.levelno >= level:
            heard.append(record.getMessage())
        return False

    log = logging.getLogger(name)
    log.addFilter(listen)
    try:
        yield heard
    finally:
        log.removeFilter(listen)
