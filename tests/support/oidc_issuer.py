"""An OpenID Connect issuer for tests, with one person and one client, whose tokens a real API server verifies."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from shared.certificates import CertificateAuthority
from tests.support.http_server import HttpServer, Request, Response

CLIENT = "console"
SECRET = "s3cret/+:"
PERSON = "jane@example.com"


@dataclass
class TestIssuer:
    """The issuer and what it does wrong.

    Attributes:
        url: Its URL, once it serves.
        ca: Its CA (PEM).
        claims: Claims of ID tokens in place of the right ones.
        lifetime: Seconds of an ID token.
        refuses: Whether the token endpoint refuses each request.
        grants: The grant types of the requests for tokens.
    """

    __test__ = False

    ca: str
    url: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    lifetime: float = 3600.0
    refuses: bool = False
    grants: list[str] = field(default_factory=list)
    _key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    _codes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _refresh_tokens: set[str] = field(default_factory=set)

    def answer(self, request: Request) -> Response:
        """Answers a request of a browser, the console or the API server."""
        path, _, query = request.path.partition("?")
        given = _form(query)
        match path:
            case "/.well-known/openid-configuration":
                return _json(
                    {
                        "issuer": self.url,
                        "authorization_endpoint": f"{self.url}/auth",
                        "token_endpoint": f"{self.url}/token",
                        "jwks_uri": f"{self.url}/keys",
                        "response_types_supported": ["code"],
                        "subject_types_supported": ["public"],
                        "id_token_signing_alg_values_supported": ["RS256"],
                        **self.metadata,
                    }
                )
            case "/keys":
                numbers = self._key.public_key().public_numbers()
                key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1"}
                return _json({"keys": [{**key, "n": _number(numbers.n), "e": _number(numbers.e)}]})
            case "/auth":
                code = secrets.token_urlsafe(16)
                self._codes[code] = given
                back = f"{given['redirect_uri']}?{urlencode({'code': code, 'state': given['state']})}"
                head = '<!DOCTYPE html><html lang="en"><title>Issuer</title><link rel="icon" href="data:,">'
                page = f'{head}<a href="{escape(back)}">I am Jane</a></html>'
                return Response(body=page.encode(), headers={"Content-Type": "text/html"})
            case "/token":
                return self._token(request, _form(request.body.decode()))
        return Response(404)

    def _token(self, request: Request, form: Mapping[str, str]) -> Response:
        self.grants.append(form.get("grant_type", ""))
        pair = f"{CLIENT}:s3cret%2F%2B%3A"
        if self.refuses or request.authorization != f"Basic {base64.b64encode(pair.encode()).decode()}":
            return _json({"error": "invalid_client"}, 401)
        nonce = {}
        if form["grant_type"] == "authorization_code":
            asked = self._codes.pop(form["code"], {})
            challenge = _encoded(hashlib.sha256(form["code_verifier"].encode()).digest())
            if (challenge, form["redirect_uri"]) != (asked.get("code_challenge"), asked.get("redirect_uri")):
                return _json({"error": "invalid_grant"}, 400)
            nonce = {"nonce": asked["nonce"]}
        elif form["refresh_token"] not in self._refresh_tokens:
            return _json({"error": "invalid_grant"}, 400)
        refresh = secrets.token_urlsafe(16)
        self._refresh_tokens = {refresh}
        return _json({"id_token": self.id_token(**nonce), "refresh_token": refresh, "token_type": "Bearer"})

    def id_token(self, **more: Any) -> str:
        """Returns an ID token of the person."""
        now = time.time()
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "sub": "jane",
            "email": PERSON,
            "iat": int(now),
            "jti": secrets.token_hex(),
        }
        claims |= {"exp": int(now + self.lifetime), **more, **self.claims}
        text = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, claims))
        return f"{text}.{_encoded(self._key.sign(text.encode(), PKCS1v15(), SHA256()))}"


@contextmanager
def serving_issuer(folder: Path) -> Iterator[TestIssuer]:
    """Serves an issuer with TLS. `folder` gets its certificate, and its CA as ca.crt."""
    authority = CertificateAuthority.generate("issuer")
    pair = authority.issue("127.0.0.1", ips=["127.0.0.1"], server=True)
    (folder / "tls.crt").write_bytes(pair.cert_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)
    (folder / "ca.crt").write_bytes(authority.cert_pem)
    issuer = TestIssuer(authority.cert_pem.decode())
    with HttpServer(issuer.answer, folder) as server:
        issuer.url = server.url
        yield issuer


def _form(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}


def _json(document: Mapping[str, Any], status: int = 200) -> Response:
    return Response(status, json.dumps(document).encode(), {"Content-Type": "application/json"})


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(number: int) -> str:
    return _encoded(number.to_bytes((number.bit_length() + 7) // 8))
