"""Access control of the local web page.

Any web site that the user visits can send requests to 127.0.0.1, and with DNS
rebinding even read the responses. Therefore

- the Host header of every request must be an address of this server,
- the Origin header of every request that changes something must be this page,
- every request must carry a cookie. The first request gets it, if its address contains
  the token that `discrepant serve` printed.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Sent with every response
SECURITY_HEADERS = {
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


@dataclass(frozen=True)
class AccessGuard:
    """ASGI middleware that refuses requests from anywhere but the page itself.

    Attributes
    ----------
    app : ASGI application
        The application behind the guard.
    hosts : collection of str
        Accepted values of the Host header, with the port.
    token : str
        The secret that the first request must contain.
    """

    app: ASGIApp
    hosts: Collection[str]
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        cookie = self._cookie() if self._has_token(scope) else None
        send_secured = _add_headers(send, cookie)
        refusal = self._refusal(scope)
        if refusal:
            await PlainTextResponse(refusal, 403)(scope, receive, send_secured)
        else:
            await self.app(scope, receive, send_secured)

    def _refusal(self, scope: Scope) -> str:
        """Return why a request is refused, or an empty string."""
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self.hosts:
            return "Requests under another host name are refused."
        origin = headers.get("origin")
        if scope["method"] not in ("GET", "HEAD"):
            if origin not in {f"http://{host}" for host in self.hosts}:
                return "Changes are accepted from this page only."
        value = cookie_parser(headers.get("cookie", "")).get(self._cookie_name, "")
        if secrets.compare_digest(value.encode(), self.token.encode()):
            return ""
        if self._has_token(scope):
            return ""
        return "Open the address that `discrepant serve` printed; it has the token."

    def _has_token(self, scope: Scope) -> bool:
        """Return whether this is a first request with the right token."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        token = query.get("token", [""])[0]
        correct = secrets.compare_digest(token.encode(), self.token.encode())
        return scope["path"] == "/" and correct

    @property
    def _cookie_name(self) -> str:
        """Name of the cookie; it differs between servers, as cookies ignore ports."""
        return f"discrepant-{self.token[:6]}"

    def _cookie(self) -> str:
        return f"{self._cookie_name}={self.token}; HttpOnly; SameSite=Strict; Path=/"


def _add_headers(send: Send, cookie: str | None) -> Send:
    """Return ``send`` with the security headers, and a cookie, on every response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            if cookie:
                headers["Set-Cookie"] = cookie
        await send(message)

    return send_with_headers
