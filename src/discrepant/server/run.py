"""Start the page: bound to this machine, opened with a token in its address."""

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
from discrepant.server.access import AccessGuard, bracketed
from discrepant.server.app import LIMIT, build


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    anyone: bool = False,
    limit: int = LIMIT,
    show: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the page until Ctrl-C.

    Parameters
    ----------
    host : str
        Address to bind to. One that other machines can reach needs ``anyone``.
    port : int
        0 takes one that is free.
    anyone : bool
        Whether other machines may reach the page; whoever has its address, token and
        all, can then send it files.
    limit : int
        Bytes of the largest file that is taken.
    show : bool
        Whether to open a browser.
    say : callable
        Told the address.
    """
    if not _is_here(host) and not anyone:
        raise InputError(
            f"{host} can be reached from other machines; pass anyone=True if that is "
            "what you want."
        )
    everywhere = host in ("0.0.0.0", "::")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(
            f"{host}:{port} cannot be used: {error.strerror or error}; "
            "choose another port."
        ) from None
    port = bound.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, bracketed(host))
    names = [shown]
    if everywhere or _is_here(host):
        names += ["127.0.0.1", "localhost"]
    if not _is_here(host):
        names.append(socket.gethostname())
    hosts = frozenset(f"{name}:{port}" for name in names)
    token = secrets.token_urlsafe(24)
    app = build(limit, lambda: server.should_exit)
    site = AccessGuard(app, hosts, token, open_to_all=everywhere)
    address = f"http://{shown}:{port}/?token={token}"
    if not _is_here(host):
        say(
            "Other machines can reach this page: whoever has its address can use it, "
            "and what is sent travels unencrypted."
        )
    if everywhere:
        say(f"There it is http://{socket.gethostname()}:{port}/?token={token}")
    say(f"Open {address}\nCtrl-C ends it; nothing that was sent is kept.")
    if show:
        webbrowser.open(address)
    config = uvicorn.Config(
        site, log_level="error", access_log=False, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    with _hangup_terminates():
        server.run(sockets=[bound])


@contextmanager
def _hangup_terminates() -> Iterator[None]:
    """Treat SIGHUP as SIGTERM, which uvicorn handles; under nohup, ignore it."""
    hangup = getattr(signal, "SIGHUP", None)
    main = threading.current_thread() is threading.main_thread()
    if hangup is None or not main or signal.getsignal(hangup) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(hangup, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(hangup, before)


def _is_here(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
