"""People log in at an issuer, whose ID tokens a real API server accepts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from infra import local_control_plane
from infra.console.oidc import Issuer, Registration
from infra.console.server import serving_logins
from infra.console.sessions import Sessions
from shared.api.resources import CLUSTER
from shared.kube import ApiError, Client, connect
from shared.kube.credentials import Credentials
from tests.support import accounts
from tests.support.browser import barriers, opened
from tests.support.console import get
from tests.support.objects import manifest
from tests.support.oidc_issuer import CLIENT, PERSON, SECRET, TestIssuer, serving_issuer
from tests.support.planes import connected, running_plane
from tests.support.until import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer"}
RULES = [{"apiGroups": [CLUSTER.group], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
ATTEMPT = ".".join("x" * 43 for _ in range(3))


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestIssuer]:
    with serving_issuer(tmp_path_factory.mktemp("issuer")) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def trusting(issuer: TestIssuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A control plane that accepts the tokens of the issuer."""
    ca = tmp_path_factory.mktemp("ca") / "ca.crt"
    ca.write_text(issuer.ca)
    flags = [
        f"--oidc-issuer-url={issuer.url}",
        f"--oidc-client-id={CLIENT}",
        f"--oidc-ca-file={ca}",
        "--oidc-username-claim=email",
    ]
    folder = tmp_path_factory.mktemp("management")
    with running_plane(folder, groups=[CLUSTER.group], api_server_flags=flags), connected(folder) as admin:
        api = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "viewer"}}
        binding = {"roleRef": ROLE, "subjects": [{"apiGroup": ROLE["apiGroup"], "kind": "User", "name": PERSON}]}
        role = {**api, "kind": "ClusterRole", "rules": RULES}
        accounts.install(admin, [role, {**api, "kind": "ClusterRoleBinding", **binding}])
        admin.create(CLUSTER, manifest(CLUSTER, "mine", "default", spec={"paused": True}))
        until(lambda: accepts(folder, issuer), "the API server to know the issuer", pause=0.5)
        yield folder


def accepts(plane: Path, issuer: TestIssuer) -> bool:
    server = connect.inline_credentials(local_control_plane.kubeconfig(plane).read_bytes())
    client = Client(Credentials(server.host, server.ca, token=issuer.id_token))
    try:
        return accounts.may(client, "list", CLUSTER.group, CLUSTER.plural)
    except ApiError:
        return False
    finally:
        client.close()


@contextmanager
def console(kubeconfig: Path, issuer: TestIssuer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    sessions = Sessions(connect.token_clients(), "test")
    registered = Issuer(Registration(issuer.url, CLIENT, SECRET, issuer.ca))
    with serving_logins(sessions, "127.0.0.1", 0, ["console.example"], registered) as port:
        yield f"http://localhost:{port}/"


@pytest.fixture
def address(trusting: Path, issuer: TestIssuer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with console(local_control_plane.kubeconfig(trusting), issuer, monkeypatch) as address:
        yield address


def test_person_logs_in_at_the_issuer_and_out(chromium: Browser, address: str, issuer: TestIssuer) -> None:
    with opened(chromium, address, issuer=issuer.url) as page:
        assert barriers(page) == []
        page.get_by_role("link", name=f"Log in at {issuer.url}").click()
        page.get_by_role("link", name="I am Jane").click()
        page.get_by_role("link", name="default/mine").wait_for()
        page.get_by_text(f"{PERSON} at test").wait_for()
        assert page.evaluate("document.cookie") == ""
        cookies = {one["name"]: one for one in page.context.cookies()}
        assert cookies.keys() == {"capi-functions-login"}
        login = cookies["capi-functions-login"]
        assert (login["httpOnly"], login["secure"], login["sameSite"]) == (True, True, "Strict")
        assert len(login["value"]) < 100
        issuer.lifetime = 20.0  # so short that each request refreshes
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Token").wait_for()
        page.goto(address)
        page.get_by_role("link", name=f"Log in at {issuer.url}").click()
        page.get_by_role("link", name="I am Jane").click()
        page.get_by_role("link", name="default/mine").click()
        page.get_by_text("Paused: functions change neither").wait_for()
        assert issuer.grants[-1] == "refresh_token"
    issuer.lifetime = 3600.0


def test_console_has_the_address_of_its_host_name(address: str, issuer: TestIssuer) -> None:
    for host, back in (("console.example", "https"), ("localhost:1", "http")):
        answer = get(address, "/login/start", host=host)
        assert answer.status == 303
        assert answer.headers["location"].startswith(f"{issuer.url}/auth?")
        assert f"redirect_uri={back}%3A%2F%2F" in answer.headers["location"]
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "Secure", "SameSite=lax", "Path=/login/callback"} <= set(cookie.split("; "))
    assert get(address, "/login/start", host="evil.example").status == 421


@pytest.mark.parametrize(
    ("query", "attempt", "problem"),
    [
        ("", "", "begun in another browser"),
        (f"state={'x' * 43}&code=1", "", "begun in another browser"),
        (f"state={'y' * 43}&code=1", ATTEMPT, "begun in another browser"),
        (f"state={'x' * 43}&error=access_denied%3Cb%3E", ATTEMPT, "refuses the login: access_denied&lt;b&gt;"),
        (f"state={'x' * 43}&code=1", ATTEMPT, "refuses the login: invalid_grant"),
    ],
)
def test_answer_that_belongs_to_no_login_is_refused(address: str, query: str, attempt: str, problem: str) -> None:
    answer = get(address, f"/login/callback?{query}", Cookie=f"capi-functions-attempt={attempt}")
    assert answer.status == 403
    assert problem in answer.text
    assert "set-cookie" not in answer.headers


def test_unknown_login_is_no_login(address: str) -> None:
    answer = get(address, "/", Cookie="capi-functions-login=x")
    assert answer.status == 403
    assert "log in again" in answer.text


def test_person_whose_token_the_api_server_refuses_is_not_logged_in(
    chromium: Browser, kubeconfig: Path, issuer: TestIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        console(kubeconfig, issuer, monkeypatch) as stranger,  # whose API server does not know the issuer
        opened(chromium, stranger, issuer=issuer.url, expected="403") as page,
    ):
        page.get_by_role("link", name=f"Log in at {issuer.url}").click()
        page.get_by_role("link", name="I am Jane").click()
        page.get_by_text("--oidc-issuer-url and --oidc-client-id must name").wait_for()
        assert barriers(page) == []
