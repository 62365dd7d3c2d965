"""Who may speak to the page: only a browser on this machine that was given the token.

Any site that a person visits can send requests to 127.0.0.1, by name tricks even read
the answers. So every request must name this host, every change must come from this
page, and all but the first visit must carry the cookie that the first visit, with the
token in its address, was given.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' blob: data:; media-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def bracketed(host: str) -> str:
    """Return a host as it stands in the address of a page."""
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True)
class AccessGuard:
    """Refuse whoever is not the page.

    Attributes
    ----------
    app : ASGI application
        What is guarded.
    hosts : iterable of str
        What the Host header may be, with the port.
    token : str
        What the first visit must bring.
    open_to_all : bool
        Whether Host may also be the number at which a request came in. A name that
        somebody else made to mean this machine is refused all the same.
    """

    app: ASGIApp
    hosts: Iterable[str]
    token: str
    open_to_all: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a refusal."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        guarded = _with_headers(send, self._cookie() if self._brings(scope) else None)
        reason = self._reason(scope)
        if reason:
            await PlainTextResponse(reason, 403)(scope, receive, guarded)
        else:
            await self.app(scope, receive, guarded)

    def _reason(self, scope: Scope) -> str:
        """Say why a request is refused; nothing if it is not."""
        headers = Headers(scope=scope)
        hosts = set(self.hosts)
        if self.open_to_all and scope.get("server"):
            number, port = scope["server"]
            hosts.add(f"{bracketed(number)}:{port}")
        if headers.get("host", "") not in hosts:
            return "This page answers only to its own address."
        origin = headers.get("origin")
        if scope["method"] not in ("GET", "HEAD"):
            if origin not in {f"http://{host}" for host in hosts}:
                return "Changes are taken from this page only."
        held = cookie_parser(headers.get("cookie", "")).get(self._name, "")
        if secrets.compare_digest(held.encode(), self.token.encode()):
            return ""
        if self._brings(scope):
            return ""
        return "Open the address that `discrepant serve` printed: it holds the token."

    def _brings(self, scope: Scope) -> bool:
        """Whether this is a first visit with the right token."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        right = secrets.compare_digest(given.encode(), self.token.encode())
        return scope["path"] == "/" and right

    @property
    def _name(self) -> str:
        """The cookie's name: cookies know no ports, and two pages must not mix."""
        return f"discrepant-{self.token[:6]}"

    def _cookie(self) -> str:
        return f"{self._name}={self.token}; HttpOnly; SameSite=Strict; Path=/"


def _with_headers(send: Send, cookie: str | None) -> Send:
    """Add what every answer carries."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            if cookie:
                headers["Set-Cookie"] = cookie
        await send(message)

    return sending
