"""Logs people in at an OpenID Connect issuer: the authorization code flow with PKCE.

The API server verifies the signature of an ID token at each use. Here TLS proves the issuer, from whose token endpoint
each token comes (OpenID Connect Core 1.0, section 3.1.3.7), and the claims are checked.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Self
from urllib.parse import quote, urlencode

from infra.operations.text import plain
from shared.download.errors import SourceError
from shared.download.web import HttpSession
from shared.kube.credentials import is_token
from shared.ttl_cache import TTLCache

from .sessions import LoginRefused
from .shares import to_end

MOST = 200
"""People who are logged in at the same time; only 20 of them have watches."""
MOST_OF_ONE = 5
"""Logins of one person; a further login ends the oldest of them."""
_IDLE = 3600.0
"""Seconds without a request after which a login ends."""
_EARLY = 30.0
"""Seconds before the end of an ID token at which it is refreshed."""
_WITHIN = 10.0
"""Seconds for an answer of the issuer."""
_METADATA_FOR = 3600.0
_MOST_BYTES = 128 << 10
_EXPIRED = "the login has expired: log in again"


@dataclass(frozen=True)
class Registration:
    """The console as a client of the issuer.

    Attributes:
        issuer: The https URL of the issuer, as in its ID tokens.
        client_id: The audience of the ID tokens.
        secret: The secret of the client; empty for a public client.
        ca: A CA (PEM) that is trusted in addition to the system's.
        scopes: The scopes beside `openid`.
    """

    issuer: str
    client_id: str
    secret: str = field(default="", repr=False)
    ca: str = ""
    scopes: tuple[str, ...] = ("email",)


@dataclass(frozen=True)
class Attempt:
    """The random texts of one login, which a cookie binds to the browser."""

    state: str
    nonce: str
    verifier: str = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        """Returns new texts."""
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Returns the attempt in a cookie; None if there is none."""
        parts = text.split(".")
        return cls(*parts) if len(parts) == 3 and all(len(part) == 43 for part in parts) else None

    def dump(self) -> str:
        """Returns the value of the cookie."""
        return f"{self.state}.{self.nonce}.{self.verifier}"


@dataclass(frozen=True)
class Tokens:
    """The tokens of a person. `expires` is the time of the ID token's end, in seconds since 1970."""

    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    subject: str
    expires: float


class Issuer:
    """An issuer at which the console is registered. All methods raise `LoginRefused`."""

    def __init__(self, registration: Registration) -> None:
        self.registration = registration
        self._cache = TTLCache()

    def address(self, attempt: Attempt, redirect: str) -> str:
        """Returns where a browser begins the login; `redirect` is the URL to which the issuer sends it back."""
        endpoint = self._endpoint("authorization_endpoint")
        challenge = hashlib.sha256(attempt.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.registration.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(("openid", *self.registration.scopes)),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    def exchange(self, code: str, attempt: Attempt, redirect: str) -> Tokens:
        """Returns the tokens for the code of a login."""
        sent = {"code": code, "redirect_uri": redirect, "code_verifier": attempt.verifier}
        answer = self._tokens("authorization_code", sent)
        return self._checked(answer, nonce=attempt.nonce)

    def refresh(self, tokens: Tokens) -> Tokens:
        """Returns new tokens of the same person."""
        if not tokens.refresh_token:
            raise LoginRefused(_EXPIRED)
        answer = self._tokens("refresh_token", {"refresh_token": tokens.refresh_token})
        renewed = self._checked({"refresh_token": tokens.refresh_token, **answer})
        if renewed.subject != tokens.subject:
            raise LoginRefused(f"{self.registration.issuer} has refreshed the token of another person")
        return renewed

    def _checked(self, answer: Mapping[str, Any], *, nonce: str | None = None) -> Tokens:
        registration, token = self.registration, answer.get("id_token")
        if not isinstance(token, str) or not is_token(token):
            raise LoginRefused(f"{registration.issuer} has sent no ID token")
        found = claims(token)
        audience = found.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        party, expires = found.get("azp", registration.client_id if len(audiences) == 1 else None), found.get("exp")
        if (
            found.get("iss") != registration.issuer
            or registration.client_id not in audiences
            or party != registration.client_id
            or not isinstance(expires, int | float)
            or not time.time() < expires
            or (nonce is not None and found.get("nonce") != nonce)
        ):
            raise LoginRefused(f"{registration.issuer} has sent an ID token of another issuer, client, time or login")
        refresh = answer.get("refresh_token")
        return Tokens(token, refresh if isinstance(refresh, str) else "", str(found.get("sub")), expires)

    def _tokens(self, grant: str, sent: Mapping[str, str]) -> Mapping[str, Any]:
        registration = self.registration
        body, authorization = {"grant_type": grant, "client_id": registration.client_id, **sent}, ""
        if registration.secret:
            pair = f"{quote(registration.client_id, safe='')}:{quote(registration.secret, safe='')}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        form = urlencode(body).encode()
        return self._request("POST", self._endpoint("token_endpoint"), authorization, form)

    def _endpoint(self, name: str) -> str:
        """Returns an address from the metadata of the issuer (OpenID Connect Discovery 1.0)."""
        issuer = self.registration.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata: Mapping[str, Any] = self._cache.get("metadata", _METADATA_FOR, lambda: self._request("GET", url))
        endpoint = metadata.get(name)
        if metadata.get("issuer") != issuer or not isinstance(endpoint, str) or not endpoint.startswith("https://"):
            self._cache.forget("metadata")
            raise LoginRefused(f"{url} is not the metadata of {issuer}, or has no https URL as {name}")
        return endpoint

    def _request(self, method: str, url: str, authorization: str = "", body: bytes | None = None) -> Mapping[str, Any]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            with HttpSession(self.registration.ca, total=_WITHIN, read=_WITHIN) as session:
                response = session.request(method, url, headers, authorization, body)
                data = response.read(_MOST_BYTES)
        except SourceError as error:
            raise LoginRefused(f"the issuer cannot be asked: {error}") from error
        document = _document(data)
        if response.status != 200:
            reason = plain(document.get("error") or f"HTTP {response.status}", most=100)
            raise LoginRefused(f"{self.registration.issuer} refuses the login: {reason}")
        return document


@dataclass
class _Login:
    tokens: Tokens
    used: float
    lock: Lock = field(default_factory=Lock)


class Logins:
    """The tokens of people who are logged in, by the random text in their cookies."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self._lock = Lock()
        self._logins: dict[str, _Login] = {}

    def add(self, tokens: Tokens) -> str:
        """Keeps the tokens of a person, and returns the text for the cookie. Raises `LoginRefused`."""
        name, now = secrets.token_urlsafe(32), time.monotonic()
        with self._lock:
            self._logins = {key: login for key, login in self._logins.items() if now - login.used < _IDLE}
            own = [(login.used, key) for key, login in self._logins.items() if login.tokens.subject == tokens.subject]
            if len(own) >= MOST_OF_ONE:
                del self._logins[min(own)[1]]
            if len(self._logins) >= MOST:
                ended = to_end(
                    tokens.subject, {key: (one.tokens.subject, one.used) for key, one in self._logins.items()}
                )
                if ended is None:
                    raise LoginRefused(f"{MOST} people are logged in already: try again in some minutes")
                del self._logins[ended]
            self._logins[name] = _Login(tokens, now)
        return name

    def token(self, name: str) -> tuple[str, str]:
        """Returns the ID token of a person, and the token that it replaces; empty if it is the same as before.

        Raises `LoginRefused` after the end of the login.
        """
        with self._lock:
            login = self._logins.get(name)
        if login is None or time.monotonic() - login.used > _IDLE:
            raise LoginRefused(_EXPIRED)
        login.used = time.monotonic()
        with login.lock:
            before = login.tokens
            if time.time() < before.expires - _EARLY:
                return before.id_token, ""
            try:
                login.tokens = self.issuer.refresh(before)
            except LoginRefused:
                if time.time() < before.expires:
                    return before.id_token, ""
                self.end(name)
                raise
            return login.tokens.id_token, before.id_token

    def end(self, name: str) -> str:
        """Ends a login, and returns its ID token; empty if there is none."""
        with self._lock:
            login = self._logins.pop(name, None)
        return login.tokens.id_token if login else ""


def claims(token: str) -> Mapping[str, Any]:
    """Returns the claims of a JSON Web Token, without a check of its signature; none if it is damaged."""
    parts = token.split(".")
    try:
        return _document(base64.urlsafe_b64decode(f"{parts[1]}{'=' * (-len(parts[1]) % 4)}"))
    except (ValueError, IndexError):
        return {}


def _document(data: bytes) -> Mapping[str, Any]:
    """Returns a JSON object; an empty one for anything else."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
