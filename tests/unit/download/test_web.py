"""HTTP sessions against real servers: redirects, limits, proxies, trust, and messages without secrets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from shared.download import SourceError
from shared.download.web import MAX_DOCUMENT, HttpSession, retry_after
from shared.redaction import redact_url
from tests.support.http_server import HttpServer, Request, Response, files
from tests.support.registry import certificate
from tests.support.until import HANGS

SECRET = "Bearer t0ken"


def _read(url: str, authorization: str = "", **options: float) -> bytes:
    with HttpSession(**options) as session:
        return session.get(url, authorization).read()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_redirect_to_another_host_carries_no_credentials() -> None:
    with HttpServer(files({"/end": b"there", "/again": b""})) as other, HttpServer(lambda _: Response()) as site:
        moved = {"/a": "/b", "/b": f"{other.url}/end"}
        site.answer = lambda request: Response(302, b"x", {"Location": moved[request.path]})
        assert _read(f"{site.url}/a", SECRET) == b"there"
        assert [asked.authorization for asked in site.requests] == [SECRET, SECRET]
        assert [asked.authorization for asked in other.requests] == [None]


def test_credentials_are_not_sent_again_after_a_redirect_back() -> None:
    with HttpServer(lambda _: Response()) as other, HttpServer(lambda _: Response()) as site:
        other.answer = lambda _: Response(302, b"", {"Location": f"{site.url}/end"})
        site.answer = lambda request: (
            Response(302, b"", {"Location": other.url}) if request.path == "/a" else Response(body=b"end")
        )
        assert _read(f"{site.url}/a", SECRET) == b"end"
        assert [asked.authorization for asked in site.requests] == [SECRET, None]


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x", "https://", "javascript:x"]
)
def test_redirect_to_another_scheme_is_refused(target: str) -> None:
    with (
        HttpServer(lambda _: Response(302, b"", {"Location": target})) as site,
        pytest.raises(SourceError, match=r"/a redirects to .*, which is refused"),
    ):
        _read(f"{site.url}/a")


@pytest.mark.parametrize("target", ["http://[", "//[x", "http://host:port/"])
def test_redirect_to_an_invalid_url_is_refused(target: str) -> None:
    with (
        HttpServer(lambda _: Response(302, b"", {"Location": target})) as site,
        pytest.raises(SourceError, match=r"invalid URL|which is refused"),
    ):
        _read(f"{site.url}/a")


def test_number_of_redirects_is_limited() -> None:
    with HttpServer(lambda _: Response(302, b"", {"Location": "/again"})) as site:
        with pytest.raises(SourceError, match="more than 5 redirects"):
            _read(f"{site.url}/a")
        assert len(site.requests) == 6


def test_redirect_from_https_to_http_is_refused(tmp_path: Path) -> None:
    _, ca = certificate(tmp_path)
    with (
        HttpServer(files({"/": b"plain"})) as plain,
        HttpServer(lambda _: Response(302, b"", {"Location": plain.url}), tmp_path) as tls,
    ):
        with HttpSession(ca) as session, pytest.raises(SourceError, match="which is refused"):
            session.get(tls.url)
        assert plain.requests == []


def test_own_ca_is_trusted(tmp_path: Path) -> None:
    _, ca = certificate(tmp_path)
    with HttpServer(files({"/": b"safe"}), tmp_path) as site:
        with HttpSession(ca) as session:
            assert session.get(f"{site.url}/").read() == b"safe"
        with (
            HttpSession() as session,
            pytest.raises(SourceError, match=r"is not trusted: .*self.signed|issuer") as caught,
        ):
            session.get(f"{site.url}/")
        assert not caught.value.transient
        assert len(site.requests) == 1
    with pytest.raises(SourceError, match=r"ca\.crt holds no certificate"):
        HttpSession("nonsense")


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]", "[fd00:ec2::254]"])
def test_metadata_services_are_refused_also_by_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        HttpServer(lambda _: Response(302, b"", {"Location": f"http://{host}/latest"})) as site,
        HttpServer(files({})) as proxy,
    ):
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with pytest.raises(SourceError, match=r"/latest is refused: .* is a link-local or metadata address") as caught:
            _read(f"{site.url}/a")
        assert not caught.value.transient
        assert proxy.requests == []


def test_truncated_body_is_a_transient_error() -> None:
    with HttpServer(lambda _: Response(body=b"half", length=8)) as site, pytest.raises(SourceError) as caught:
        _read(f"{site.url}/a?token=t0ken")
    assert caught.value.transient
    assert str(caught.value).startswith(f"{site.url}/a does not answer")


def test_long_document_is_refused_early() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(64 * 1024)

    with (
        HttpServer(lambda _: Response(body=endless())) as site,
        pytest.raises(SourceError, match=f"more than {MAX_DOCUMENT} bytes"),
    ):
        _read(site.url)


def _drops(ended: threading.Event) -> Iterator[bytes]:
    while not ended.wait(0.02):
        yield b"."


def test_slow_answer_ends_at_the_deadline() -> None:
    """Each read is in time; only their sum is not."""
    ended = threading.Event()
    try:
        with HttpServer(lambda _: Response(body=_drops(ended))) as site, pytest.raises(SourceError) as caught:
            _read(f"{site.url}/a", total=0.3)
    finally:
        ended.set()
    assert str(caught.value) == f"{site.url}/a takes longer than 0.3 s in total"
    assert caught.value.transient


def test_silent_server_ends_at_the_read_timeout() -> None:
    ended = threading.Event()

    def silent(_: Request) -> Response:
        ended.wait(HANGS)
        return Response()

    try:
        with HttpServer(silent) as site, pytest.raises(SourceError, match="does not answer") as caught:
            _read(site.url, read=0.1)
    finally:
        ended.set()
    assert caught.value.transient


def test_deadline_is_for_all_requests_together() -> None:
    with HttpServer(files({"/": b"x"})) as site, HttpSession(total=600) as session:
        assert session.get(f"{site.url}/").read() == b"x"
        session.deadline -= 600
        with pytest.raises(SourceError, match="takes longer"):
            session.get(f"{site.url}/")
        assert len(site.requests) == 1


def test_refused_connection_is_a_transient_error() -> None:
    with HttpServer(files({})) as site:
        pass
    with pytest.raises(SourceError, match=f"{site.url}/a does not answer: Connection refused") as caught:
        _read(f"{site.url}/a?t0ken")
    assert caught.value.transient


def test_proxy_of_the_settings_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        HttpServer(lambda request: Response(body=request.path.encode())) as proxy,
        HttpServer(files({"/x": b"direct"})) as site,
    ):
        monkeypatch.setenv("HTTP_PROXY", f"http://us%65r:pa%3Ass@{proxy.host}")
        assert _read("http://releases.invalid/x") == b"http://releases.invalid/x"
        assert proxy.requests[0].headers["Proxy-Authorization"] == "Basic dXNlcjpwYTpzcw=="
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert _read(f"{site.url}/x") == b"direct"
        assert "Proxy-Authorization" not in site.requests[0].headers
        proxy.answer = lambda _: Response(407, b"")
        with pytest.raises(SourceError) as caught, HttpSession() as session:
            raise session.get("http://releases.invalid/x").error()
        assert "pa" + "ss" not in str(caught.value)
    with pytest.raises(SourceError, match="does not answer") as caught:
        _read("http://releases.invalid/x")
    assert proxy.host not in str(caught.value)


@pytest.mark.parametrize("name", ["http", "all"])
def test_unusable_proxy_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{name}_proxy", "socks5://us:pass@p:1")
    with pytest.raises(SourceError, match=rf"the setting {name}_proxy is not an http\(s\) URL$"):
        _read("http://releases.invalid/x")


def test_https_goes_through_a_tunnel_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpServer(files({})) as proxy:
        monkeypatch.setenv("https_proxy", proxy.host)
        with pytest.raises(SourceError, match=r"https://releases\.invalid/x does not answer") as caught:
            _read("https://releases.invalid/x")
    assert caught.value.transient


@pytest.mark.parametrize(
    ("status", "headers", "transient", "seconds", "message"),
    [
        (500, {}, True, None, "answers with HTTP 500"),
        (503, {"Retry-After": "7"}, True, 7, "answers with HTTP 503"),
        (429, {}, True, 60, "limits requests"),
        (429, {"Retry-After": "5"}, True, 5, "limits requests"),
        (403, {"Retry-After": "5"}, True, 5, "limits requests"),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"}, True, 3600, "limits requests"),
        (
            403,
            {"X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "99999999999"},
            False,
            None,
            "refuses access .*: way",
        ),
        (401, {}, False, None, "refuses access .*: way out"),
        (418, {}, False, None, "answers with HTTP 418"),
    ],
)
def test_status_code_decides_message_and_retry(
    status: int, headers: dict[str, str], transient: bool, seconds: float | None, message: str
) -> None:
    with HttpServer(lambda _: Response(status, b"text of a stranger", headers)) as site, HttpSession() as session:
        error = session.get(f"{site.url}/a?t0ken", SECRET).error("way out")
    assert (error.transient, error.retry_after) == (transient, seconds)
    with pytest.raises(SourceError, match=message):
        raise error
    assert "t0ken" not in str(error)
    assert "stranger" not in str(error)


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "30"}, 30),
        ({"Retry-After": "0"}, 1),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "Thu, 01 Jan 2026 00:01:00 GMT"}, 60),
        ({"Retry-After": "Thu, 01 Jan 2026 00:01:00 -0000"}, 60),
        ({"Retry-After": "Wed, 31 Dec 2025 00:00:00 GMT"}, 1),
        ({"Retry-After": "999999999"}, 3600),
        ({"Retry-After": "soon"}, None),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW.timestamp()) + 90)}, 90),
        ({"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": str(int(NOW.timestamp()) + 90)}, None),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "x"}, None),
    ],
)
def test_retry_after_is_parsed_and_limited(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_urls_in_messages_have_no_credentials() -> None:
    assert redact_url("http://[t0ken") == "(no URL)"
    assert redact_url("https://user:t0ken@host:1/path?t0ken#t0ken") == "https://host:1/path"
