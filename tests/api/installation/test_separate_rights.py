"""The rights of an installation without Knative on a real kube-apiserver: two accounts, and some namespaces only."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from functions import catalog
from functions.sweep.function import _objects
from functions.sweep.triggers import SWEPT
from infra.generate.__main__ import PROJECT
from shared import profiles
from shared.api.resources import CLUSTER, NAMESPACE, SECRET
from shared.clients import Clients
from shared.event import Event
from shared.kube import ApiError, Client, Key, Object
from shared.kube.connect import management as connect_management
from shared.running_core import find_running_core
from shared.runtime.answer import Answer
from shared.runtime.readiness import _rights
from tests.support import processes
from tests.support.accounts import account, install, may
from tests.support.event_receiver import EventReceiver
from tests.support.until import logged, until

RBAC = "rbac.authorization.k8s.io"
LIFECYCLE, PROVIDERS = Key("capi-functions", "capi-functions"), Key("capi-functions", "capi-functions-providers")


def documents(path: str) -> list[Object]:
    return [obj for obj in yaml.safe_load_all((PROJECT / "infra/manifests" / path).read_text()) if obj]


def single(management: Client) -> None:
    install(management, [*documents("single/namespace.yaml"), *documents("single/access.yaml")])


def test_only_the_account_of_providers_may_do_everything_also_after_an_upgrade(
    management: Client, kubeconfig: Path
) -> None:
    """Earlier versions bound every role to the one account: the same bindings now name the other one."""
    single(management)
    (binding,) = [
        obj
        for obj in documents("single/access.yaml")
        if (obj["kind"], obj["metadata"]["name"]) == ("ClusterRoleBinding", "capi-functions-provider-install")
    ]
    binding["subjects"][0]["name"] = LIFECYCLE.name
    install(management, [binding])
    lifecycle, providers = (account(management, kubeconfig, key) for key in (LIFECYCLE, PROVIDERS))
    until(lambda: may(lifecycle, "*", "*", "*"), "the earlier version's account may do everything")
    single(management)
    until(lambda: not may(lifecycle, "*", "*", "*"), "the account may not do everything")
    until(lambda: may(providers, "*", "*", "*"), "the account of providers may do everything")
    for verb, group, plural in (
        ("escalate", RBAC, "clusterroles"),
        ("bind", RBAC, "clusterroles"),
        ("create", RBAC, "rolebindings"),
        ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("patch", "apiextensions.k8s.io", "customresourcedefinitions"),
        ("impersonate", "", "users"),
        ("create", "", "serviceaccounts/token"),
        ("create", "", "pods"),
        ("get", "operator.cluster.x-k8s.io", "coreproviders"),
    ):
        assert not may(lifecycle, verb, group, plural), (verb, plural)


def secret(namespace: str, name: str, **content: object) -> Object:
    metadata = {"namespace": namespace, "name": name, "annotations": {"kubernetes.io/service-account.name": "default"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **content}


def test_functions_get_no_token_and_change_no_settings_by_writing_secrets(
    management: Client, namespace: str, kubeconfig: Path
) -> None:
    single(management)
    lifecycle = account(management, kubeconfig, LIFECYCLE)
    until(lambda: may(lifecycle, "create", "", "secrets"))
    token = secret(namespace, "token", type="kubernetes.io/service-account-token")

    def refused() -> bool:
        with suppress(ApiError):
            management.delete(SECRET, Key(namespace, "token"))
        try:
            lifecycle.create(SECRET, token)
        except ApiError as error:
            return "functions must not write Secrets for the token of a ServiceAccount" in str(error)
        return False  # policies take effect a moment after they are created

    until(refused, "a Secret for a token is refused")
    with pytest.raises(ApiError, match="in the namespace of their installation"):
        lifecycle.apply(SECRET, secret("capi-functions", "capi-functions-providers"), manager="test")
    assert lifecycle.create(SECRET, secret(namespace, "kubeconfig", type="cluster.x-k8s.io/secret"))
    assert management.create(SECRET, token), "the policy is about functions only"


def released(helm: Path, release: str, *settings: str) -> list[Object]:
    chosen = [part for setting in settings for part in ("--set", setting)]
    command = [helm, "template", "release", str(PROJECT / "infra/chart"), f"--namespace={release}", *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.safe_load_all(done.stdout) if obj]


def cluster(namespace: str, name: str) -> Object:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": CLUSTER.api_version, "kind": CLUSTER.kind, "metadata": metadata, "spec": {}}


def test_installation_for_some_namespaces_sees_and_may_nothing_elsewhere(
    management: Client,
    namespace: str,
    kubeconfig: Path,
    helm: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, ours, theirs = f"{namespace}-release", [f"{namespace}-a", f"{namespace}-b"], f"{namespace}-c"
    for name in (release, *ours, theirs):
        management.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    install(management, released(helm, release, "profile=standalone", f"namespaces={{{','.join(ours)}}}"))
    file = tmp_path / "kubeconfig"
    client = account(management, kubeconfig, Key(release, "capi-functions"), file)
    for name in ours:
        until(lambda name=name: may(client, "get", "", "secrets", name), f"the rights in {name}")  # type: ignore[misc]
    for where in ("", theirs, "kube-system"):
        assert not may(client, "get", "", "secrets", where), where
        assert not may(client, "list", CLUSTER.group, CLUSTER.plural, where), where
    until(lambda: may(client, "list", "apiextensions.k8s.io", "customresourcedefinitions"))

    for name in (*ours, theirs):
        management.create(CLUSTER, cluster(name, "before"))
    monkeypatch.setenv("CAPI_FUNCTIONS_NAMESPACES", ",".join(ours))
    monkeypatch.setenv("KUBECONFIG", str(file))
    clients = Clients(connect_management())
    swept = [one for one in SWEPT if profiles.belongs(one.profiles, ["standalone"])]
    found = {obj["metadata"]["namespace"] for obj in _objects(clients, swept, CLUSTER.kind)}
    assert found == {*ours}
    assert find_running_core(clients.management) == "", "Deployments elsewhere are listed without an error"
    declared = [each for each in catalog.triggers(profiles=["standalone"]).values() if not each.local]
    lacking = [line for line in _rights(clients, declared) if "clusterstack.x-k8s.io" in line or "secrets" in line]
    assert not lacking

    log = tmp_path / "log"
    receiver = EventReceiver(lambda _path, _event: Answer(204))
    with receiver, log.open("wb") as output:
        command = [sys.executable, "-m", "infra.forwarder", "--functions", receiver.url, f"--lease={release}/forwarder"]
        environment = os.environ | {"CAPI_FUNCTIONS_PROFILES": "standalone"}
        environment.pop("K_SINK", None)
        process = processes.start([*command, "--without=kind_cluster"], env=environment, stderr=output)

        def of(name: str) -> set[str]:
            events: list[Event] = [event for _, event, _ in receiver.received]
            return {event.namespace for event in events if event.name == name}

        try:
            until(lambda: "all kinds are listed" in log.read_text(), details=logged(log))
            for name in (theirs, *ours):
                management.create(CLUSTER, cluster(name, "after"))
            until(lambda: of("before") == of("after") == {*ours}, details=logged(log))
        finally:
            process.kill()
            process.wait()
    assert {event.namespace for _, event, _ in receiver.received} - {""} == {*ours}
    assert not [line for line in log.read_text().splitlines() if "forbidden" in line.lower()]
