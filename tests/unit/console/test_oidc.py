"""The login at an issuer: what the console accepts, and for how long."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.console import oidc
from infra.console.oidc import Attempt, Issuer, Logins, Registration, Tokens
from infra.console.sessions import LoginRefused
from tests.support.http_server import Request
from tests.support.oidc_issuer import CLIENT, SECRET, TestIssuer, serving_issuer

BACK = "https://console.example/login/callback"


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[TestIssuer]:
    with serving_issuer(tmp_path) as issuer:
        yield issuer


@pytest.fixture
def issuer(remote: TestIssuer) -> Issuer:
    return Issuer(Registration(remote.url, CLIENT, SECRET, remote.ca))


def code_of(issuer: Issuer, remote: TestIssuer, attempt: Attempt) -> str:
    """Goes to the issuer as a browser, and returns the code of its answer."""
    address = urlsplit(issuer.address(attempt, BACK))
    page = remote.answer(Request(f"{address.path}?{address.query}", {})).body
    assert isinstance(page, bytes)
    back = page.decode().partition('<a href="')[2].partition('"')[0].replace("&amp;", "&")
    query = parse_qs(urlsplit(back).query)
    assert query["state"] == [attempt.state]
    return query["code"][0]


def log_in(issuer: Issuer, remote: TestIssuer) -> Tokens:
    attempt = Attempt.new()
    return issuer.exchange(code_of(issuer, remote, attempt), attempt, BACK)


def test_address_has_the_challenge_and_no_secret(issuer: Issuer) -> None:
    attempt = Attempt.new()
    address = issuer.address(attempt, BACK)
    assert attempt.verifier not in address
    assert SECRET not in address
    query = parse_qs(urlsplit(address).query)
    assert query["scope"] == ["openid email"]
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [BACK]


def test_tokens_are_of_the_person(issuer: Issuer, remote: TestIssuer) -> None:
    tokens = log_in(issuer, remote)
    assert tokens.subject == "jane"
    assert tokens.id_token not in repr(tokens)
    assert SECRET not in repr(issuer.registration)


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.example"},
        {"aud": "other"},
        {"aud": ["other"]},
        {"aud": [CLIENT, "other"]},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"azp": "other"},
        {"nonce": "another"},
        {"nonce": None},
        {"exp": 1},
        {"exp": "soon"},
        {"exp": float("nan")},
        {"exp": None},
    ],
    ids=str,
)
def test_wrong_claims_are_refused(issuer: Issuer, remote: TestIssuer, claims: Mapping[str, Any]) -> None:
    remote.claims = claims
    with pytest.raises(LoginRefused, match="of another issuer, client, time or login"):
        log_in(issuer, remote)


def test_token_for_several_parties_is_accepted_for_the_console(issuer: Issuer, remote: TestIssuer) -> None:
    remote.claims = {"aud": [CLIENT, "other"], "azp": CLIENT}
    assert log_in(issuer, remote).subject == "jane"


def test_code_needs_the_verifier_and_works_once(issuer: Issuer, remote: TestIssuer) -> None:
    attempt = Attempt.new()
    code = code_of(issuer, remote, attempt)
    with pytest.raises(LoginRefused, match="refuses the login: invalid_grant"):
        issuer.exchange(code, Attempt.new(), BACK)
    with pytest.raises(LoginRefused, match="invalid_grant"):
        issuer.exchange(code, attempt, BACK)


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://other.example"},
        {"token_endpoint": "http://127.0.0.1/token"},
        {"token_endpoint": None},
        {"token_endpoint": "https://169.254.169.254/token"},
    ],
    ids=str,
)
def test_wrong_metadata_are_refused(issuer: Issuer, remote: TestIssuer, metadata: Mapping[str, Any]) -> None:
    remote.metadata = metadata
    with pytest.raises(LoginRefused, match=r"is not the metadata of|is refused"):
        log_in(issuer, remote)


def test_issuer_of_an_unknown_authority_is_not_asked(remote: TestIssuer) -> None:
    with pytest.raises(LoginRefused, match="is not trusted"):
        Issuer(Registration(remote.url, CLIENT)).address(Attempt.new(), BACK)


def test_id_token_is_refreshed_before_its_end(issuer: Issuer, remote: TestIssuer) -> None:
    logins, tokens = Logins(issuer), log_in(issuer, remote)
    name = logins.add(tokens)
    assert logins.token(name) == (tokens.id_token, "")
    remote.lifetime = 10.0
    name = logins.add(short := log_in(issuer, remote))
    renewed, replaced = logins.token(name)
    assert renewed != replaced == short.id_token
    assert remote.grants[-1] == "refresh_token"
    remote.refuses = True
    assert logins.token(name) == (renewed, ""), "it is valid for some seconds"


def test_login_ends_with_a_refused_refresh_another_person_or_logout(issuer: Issuer, remote: TestIssuer) -> None:
    logins = Logins(issuer)
    ended = Tokens(remote.id_token(), "unknown", "jane", time.time() - 1)
    name = logins.add(ended)
    for reason in ("invalid_grant", "has expired"):
        with pytest.raises(LoginRefused, match=reason):
            logins.token(name)
    with pytest.raises(LoginRefused, match="has expired"):
        logins.token(logins.add(Tokens(remote.id_token(), "", "jane", 0.0)))
    tokens = log_in(issuer, remote)
    remote.claims = {"sub": "mallory"}
    with pytest.raises(LoginRefused, match="another person"):
        issuer.refresh(tokens)
    name = logins.add(tokens)
    assert logins.end(name) == tokens.id_token
    with pytest.raises(LoginRefused, match="log in again"):
        logins.token(name)


def test_idle_logins_end_and_their_number_is_bounded(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    logins, tokens = Logins(issuer), Tokens("a.b.c", "", "jane", time.time() + 3600)
    monkeypatch.setattr(oidc, "MOST", 1)
    earlier = logins.add(tokens)
    name = logins.add(tokens)
    with pytest.raises(LoginRefused, match="has expired"):
        logins.token(earlier)
    with pytest.raises(LoginRefused, match="are logged in already"):
        logins.add(replace(tokens, subject="joe"))
    assert logins.token(name) == ("a.b.c", "")
    monkeypatch.setattr(oidc, "_IDLE", -1.0)
    with pytest.raises(LoginRefused, match="has expired"):
        logins.token(name)
    logins.add(tokens)


def test_further_login_of_a_person_ends_the_oldest_of_them(issuer: Issuer) -> None:
    logins, end = Logins(issuer), time.time() + 3600
    other = logins.add(Tokens("a.b.c", "", "john", end))
    names = [logins.add(Tokens("a.b.c", "", "jane", end)) for _ in range(oidc.MOST_OF_ONE + 1)]
    for kept in (other, *names[1:]):
        assert logins.token(kept) == ("a.b.c", "")
    with pytest.raises(LoginRefused, match="has expired"):
        logins.token(names[0])


@pytest.mark.parametrize("cookie", ["", "a.b.c", "x" * 200, ".".join(["x" * 43] * 4)])
def test_damaged_cookie_is_no_attempt(cookie: str) -> None:
    assert Attempt.parse(cookie) is None


def test_attempt_survives_the_cookie() -> None:
    attempt = Attempt.new()
    assert Attempt.parse(attempt.dump()) == attempt


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--oidc-issuer-url=http://issuer.example"], "is no https URL"),
        (["--oidc-issuer-url=https://issuer.example"], "needs --oidc-client-id"),
    ],
)
def test_incomplete_options_are_refused(options: list[str], problem: str) -> None:
    result = CliRunner().invoke(app, ["console", "--login", *options])
    assert result.exit_code == 1
    assert problem in result.stderr
