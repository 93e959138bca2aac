"""What `GET /readyz` says is missing: kinds, rights, the API server, the object store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import flask
import pytest

from functions import catalog
from shared.api.resources import CLUSTER, CLUSTER_ADDON
from shared.clients import Clients
from shared.kube import Client, Resource
from shared.kube.credentials import Credentials
from shared.runtime import Answer
from shared.runtime.http import target
from shared.runtime.readiness import find_missing
from shared.settings import STORAGE
from shared.storage import ObjectStore
from shared.triggers import Rule, Triggers, Watch
from tests.support.accounts import as_function, with_rights
from tests.support.ports import free_port

UNKNOWN = Resource("example.dev", "v1", "Thing", "things")


def declared(resource: Resource = CLUSTER, **fields: object) -> Triggers:
    return Triggers("it", watches=(Watch(resource),), **fields)


@pytest.mark.parametrize("name", ["addon_create", "cluster", "provider_install"])
def test_function_with_its_generated_rights_misses_nothing(name: str, management: Client, kubeconfig: Path) -> None:
    function = catalog.triggers()[name]
    without_storage = Triggers(name, function.watches, rules=function.rules, primary_kinds=function.primary_kinds)
    assert [*find_missing(as_function(management, kubeconfig, name), [without_storage])] == []


def test_missing_rights_are_named_by_resource(management: Client, kubeconfig: Path, namespace: str) -> None:
    reader = Clients(with_rights(management, kubeconfig, namespace, CLUSTER.group, CLUSTER.plural, "get"))
    function = declared(rules=(Rule("", ("secrets",), ("get", "create")), Rule(CLUSTER_ADDON.group, ("*",), ("get",))))
    assert [*find_missing(reader, [function])] == [
        f"the ServiceAccount may not get *.{CLUSTER_ADDON.group}",
        "the ServiceAccount may not patch clusters/status.cluster.x-k8s.io",
        "the ServiceAccount may not create, get, patch events",
        "the ServiceAccount may not create, get secrets",
    ]
    assert [*find_missing(reader, [declared(reports=False)])] == []


def test_kind_that_is_not_served_is_named(clients: Clients) -> None:
    found = [*find_missing(clients, [declared(UNKNOWN), declared()])]
    assert found == ["Thing.example.dev is not served: is its CRD installed?"]


def test_object_store_that_answers_is_not_missing(clients: Clients, object_store: ObjectStore) -> None:
    assert [*find_missing(clients, [declared(settings=(STORAGE,))])] == [], "the bucket is created when it is needed"


def test_object_store_and_api_server_that_do_not_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-store")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-store")
    absent = Clients(Client(Credentials(f"https://127.0.0.1:{free_port()}", b"", token=lambda: "token-of-the-account")))
    cluster, store = find_missing(absent, [declared(settings=(STORAGE,))])
    assert cluster.startswith("the management cluster cannot be used: ")
    assert store.startswith("the object store cannot be used: ")
    assert "secret-of-the-store" not in store
    assert "token-of-the-account" not in cluster


@pytest.mark.parametrize(
    ("functions", "status", "text"),
    [
        (lambda: [declared(UNKNOWN)], 500, "Thing.example.dev is not served: is its CRD installed?\n"),
        (lambda: [declared()], 200, "ok\n"),
        (list, 200, "ok\n"),
    ],
)
def test_readyz_answers_with_what_is_missing(
    clients: Clients, functions: Callable[[], list[Triggers]], status: int, text: str
) -> None:
    app = flask.Flask("test")
    serve = target("it", lambda *_: Answer(204), clients, functions)
    app.add_url_rule("/<path:path>", view_func=lambda **_: serve(flask.request))
    answer = app.test_client().get("/readyz")
    assert (answer.status_code, answer.text) == (status, text)
    assert app.test_client().get("/probe").status_code == 200, "the readiness probe does not depend on it"
