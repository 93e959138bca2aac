"""Who may read the console: only a browser that has the token, under the console's own host name."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from infra.console.actions import Actions
from infra.console.pages import Source
from infra.console.server import serving
from infra.operations.failure import Failure
from tests.support.console import get


def test_address_has_an_unguessable_token_and_is_of_this_machine(address: str) -> None:
    parts = urlsplit(address)
    assert parts.hostname == "127.0.0.1"
    assert len(parts.path.strip("/")) == 32
    assert get(address).status == 200


@pytest.mark.parametrize("path", ["/", "/x/", "/events", "/static/console.css", "//", "/%00/"])
def test_paths_without_the_token_are_refused(address: str, path: str) -> None:
    assert get(address, path).status == 403
    assert get(address, f"{urlsplit(address).path[:-2]}/").status == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1.evil.example:{port}", "[::1]:{port}", "x@{own}"]
)
def test_foreign_host_names_are_refused(address: str, host: str) -> None:
    own = urlsplit(address).netloc
    assert get(address, host=host.format(own=own, port=urlsplit(address).port)).status == 421


def test_localhost_is_served(address: str) -> None:
    assert get(address, host=f"localhost:{urlsplit(address).port}").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_only_reads_are_served(address: str, method: str) -> None:
    assert get(address, method=method).status == 405


@pytest.mark.parametrize("site", ["", "none", "same-site", "cross-site"])
def test_changes_are_accepted_from_pages_of_the_console_only(source: Source, site: str) -> None:
    headers = {"Sec_Fetch_Site": site} if site else {}
    with serving(replace(source, actions=Actions(source.management))) as address:
        assert get(address, "clusters/a/b/actions/rollback", method="POST", **headers).status == 403
        assert get(address, "clusters/a/b/actions/rollback", method="PUT", Sec_Fetch_Site="same-origin").status == 405
        answer = get(address, "clusters/a/b/actions/nothing", method="POST", Sec_Fetch_Site="same-origin")
        assert (answer.status, "there is no action nothing" in answer.text) == (409, True)


@pytest.mark.parametrize("path", ["", "/", "static/console.js", "nothing", "clusters/a/b"])
def test_every_response_has_the_security_headers(address: str, path: str) -> None:
    headers = get(address, path).headers
    policy = {part.split()[0]: part.split()[1:] for part in headers["content-security-policy"].split(";")}
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == ["'self'"]
    assert policy["frame-ancestors"] == policy["base-uri"] == ["'none'"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_pages_use_no_inline_script_or_style(address: str) -> None:
    text = get(address).text
    assert "style=" not in text
    assert " on" not in " ".join(part for part in text.split("<") if part.startswith(("body", "form", "input")))
    assert text.count("<script ") == text.count("<script src=") == 2


def test_port_in_use_is_a_failure(source: Source, address: str) -> None:
    port = urlsplit(address).port or 0
    with pytest.raises(Failure, match="choose another port with --port"), serving(source, port):
        pass
