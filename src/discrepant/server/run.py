"""Start the web server of `discrepant serve`."""

import ipaddress
import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from discrepant.core.errors import InputError
from discrepant.server.access import AccessGuard, url_host
from discrepant.server.app import UPLOAD_LIMIT, build_app


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    anyone: bool = False,
    limit: int = UPLOAD_LIMIT,
    show: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the page until Ctrl-C.

    Parameters
    ----------
    host : str
        Address to listen on. One that other machines can reach needs ``anyone``.
    port : int
        0 chooses a free one.
    anyone : bool
        Allow other machines to connect. Everybody who has the page's address with its
        token can then send files.
    limit : int
        Largest accepted file, in bytes.
    show : bool
        Open the page in a browser.
    say : callable
        Called with the address of the page and other messages.
    """
    local = _is_loopback(host)
    if not local and not anyone:
        raise InputError(
            f"Other machines can connect to {host}; pass anyone=True to allow it."
        )
    all_interfaces = host in ("0.0.0.0", "::")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(
            f"{host}:{port} cannot be used: {error.strerror or error}; "
            "choose another port."
        ) from None
    port = listener.getsockname()[1]
    page_host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, url_host(host))
    names = [page_host]
    if all_interfaces or local:
        names += ["127.0.0.1", "localhost"]
    if not local:
        names.append(socket.gethostname())
    hosts = frozenset(f"{name}:{port}" for name in names)
    token = secrets.token_urlsafe(24)
    app = build_app(limit, lambda: server.should_exit)
    guarded = AccessGuard(app, hosts, token, accept_server_ip=all_interfaces)
    address = f"http://{page_host}:{port}/?token={token}"
    if not local:
        say(
            "Other machines can connect: everybody who has the address can use the "
            "page, and files are sent unencrypted."
        )
    if all_interfaces:
        say(
            "From other machines, open "
            f"http://{socket.gethostname()}:{port}/?token={token}"
        )
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


def _is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
