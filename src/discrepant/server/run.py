"""Start the web server of `discrepant serve`."""

import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from discrepant.core.errors import InputError
from discrepant.server.access import AccessGuard
from discrepant.server.app import UPLOAD_LIMIT, build_app

# Only this machine can connect. From another one, forward the port by SSH.
HOST = "127.0.0.1"


def serve(
    *,
    port: int = 0,
    limit: int = UPLOAD_LIMIT,
    show: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the page to browsers on this machine, until Ctrl-C.

    Parameters
    ----------
    port : int
        0 chooses a free one.
    limit : int
        Largest accepted file, in bytes.
    show : bool
        Open the page in a browser.
    say : callable
        Called with the address of the page.
    """
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        raise InputError(
            f"Port {port} cannot be used: {error.strerror or error}; choose another "
            "port."
        ) from None
    port = listener.getsockname()[1]
    token = secrets.token_urlsafe(24)
    app = build_app(limit, lambda: server.should_exit)
    hosts = frozenset(f"{name}:{port}" for name in (HOST, "localhost"))
    guarded = AccessGuard(app, hosts, token)
    address = f"http://{HOST}:{port}/?token={token}"
    say(
        f"Open {address}\nPress Ctrl-C to stop the server; all uploaded files are then "
        "deleted."
    )
    if show:
        webbrowser.open(address)
    config = uvicorn.Config(
        guarded, log_level="error", access_log=False, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    with _hangup_terminates():
        server.run(sockets=[listener])


@contextmanager
def _hangup_terminates() -> Iterator[None]:
    """Treat SIGHUP as SIGTERM, which uvicorn handles; under nohup, ignore it."""
    hangup = getattr(signal, "SIGHUP", None)
    main = threading.current_thread() is threading.main_thread()
    if hangup is None or not main or signal.getsignal(hangup) is signal.SIG_IGN:
        yield
        return
    previous = signal.signal(hangup, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(hangup, previous)
