"""Decisions about HelmReleaseProxies that wait, and about values and options."""

from __future__ import annotations

import base64
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.helm_release_proxy.decide import decide
from functions.helm_release_proxy.findings import Adoption, Finding, LeftTo, Observed, Problem, Rival, UpToDate
from functions.helm_release_proxy.options import Options
from functions.helm_release_proxy.triggers import is_reconciled
from functions.helm_release_proxy.values import InvalidValues, Values, merge, parse, recorded_texts, text_of
from shared.api.conditions import get_condition
from shared.api.resources import CLUSTER, HELM_RELEASE_PROXY
from shared.applier.connection import ConnectionFailed
from shared.applier.inventory import InventoryEntry
from shared.effects import Patch, RemoveFinalizer
from shared.event import change_event
from shared.helm_charts.request import WANTED, ChartRequest
from shared.helm_charts.store import MissingChart, StoredChart
from shared.helm_proxies.names import HRP_FINALIZER, INSTALLED, RELEASE_NAME_GENERATED
from shared.helm_proxies.release_record import ReleaseRecord
from shared.kube import Object, dig
from tests.support import objects

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READY_CLUSTER = objects.manifest(CLUSTER, "demo", "ns", status={"initialization": {"controlPlaneInitialized": True}})
CHART = StoredChart("web", "1.0.0", "sha256:0", b"", NOW)
REQUEST = ChartRequest("https://charts.example.com", "web", "1.0.0", "ns")


def proxy(*, status: Object | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata = {"generation": 2, "uid": "u", "finalizers": [HRP_FINALIZER], "annotations": annotations or {}}
    given = {"chartName": "web", "releaseName": "web", "namespace": "apps", "clusterRef": {"name": "demo"}, **spec}
    return objects.manifest(HELM_RELEASE_PROXY, "web", "ns", metadata=metadata, spec=given, status=status or {})


def deleted(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def reasons(status: Object | None) -> list[tuple[str, str]]:
    conditions = dig(status, "conditions", [])
    types = ("ClusterAvailable", "HelmReleaseReady", "Ready")
    found = [get_condition(conditions, type_) or {} for type_ in types]
    return [(one.get("status", ""), one.get("reason", "")) for one in found]


@pytest.mark.parametrize(
    ("cluster", "finding", "available", "ready", "seconds"),
    [
        pytest.param(None, None, "GetClusterFailed", "PreparingToHelmInstall", 60, id="no Cluster"),
        pytest.param(
            objects.manifest(CLUSTER, "demo", "ns"), None, "NotAvailable", "PreparingToHelmInstall", 30, id="unset"
        ),
        pytest.param(
            READY_CLUSTER, ConnectionFailed("x"), "GetKubeconfigFailed", "PreparingToHelmInstall", 10, id="no access"
        ),
        pytest.param(READY_CLUSTER, MissingChart(REQUEST), "Available", "PreparingToHelmInstall", 10, id="no chart"),
        pytest.param(
            READY_CLUSTER,
            MissingChart(REQUEST, "Secret x does not exist", NOW),
            "Available",
            "HelmInstallOrUpgradeFailed",
            10,
            id="credentials are not about the cluster",
        ),
        pytest.param(READY_CLUSTER, Problem("x"), "Available", "HelmInstallOrUpgradeFailed", 60, id="values"),
        pytest.param(READY_CLUSTER, Rival("other"), "Available", "HelmInstallOrUpgradeFailed", 60, id="two proxies"),
        pytest.param(READY_CLUSTER, UpToDate(CHART), "Available", "Ready", None, id="deployed"),
    ],
)
def test_each_wait_has_a_condition(
    cluster: Object | None, finding: Finding | None, available: str, ready: str, seconds: float | None
) -> None:
    decision = decide(Observed(proxy(), cluster, finding), NOW)
    found = reasons(decision.status)
    assert [reason for _, reason in found[:2]] == [available, ready]
    assert found[2] == (("True", "InfoReported") if seconds is None else ("False", "IssuesReported"))
    assert decision.requeue_after == seconds
    assert dig(decision.status, "observedGeneration") == 2


def test_missing_chart_is_requested_once_a_minute() -> None:
    asked = decide(Observed(proxy(), READY_CLUSTER, MissingChart(REQUEST)), NOW).reply
    assert asked is not None
    assert asked.type == WANTED
    assert decide(Observed(proxy(), READY_CLUSTER, MissingChart(REQUEST, "x", NOW)), NOW).reply is None


def test_generated_name_is_stored_before_anything_else() -> None:
    chart = "a" * 60 + ".x"
    decision = decide(Observed(proxy(releaseName="", chartName=f"path/{chart}"), READY_CLUSTER), NOW)
    [patch] = decision.effects
    assert isinstance(patch, Patch)
    name = patch.patch["spec"]["releaseName"]
    assert name.startswith("a" * 42 + "-")
    assert len(name) == 53
    assert patch.patch["metadata"]["annotations"] == {RELEASE_NAME_GENERATED: "true"}
    assert decision.proceed


@pytest.mark.parametrize(("count", "reason"), [(3, "Ready"), (20_000, "HelmInstallOrUpgradeFailed")])
def test_release_is_taken_over_if_its_inventory_fits(count: int, reason: str) -> None:
    entries = [InventoryEntry("", "v1", "ConfigMap", "apps", f"map-{number}") for number in range(count)]
    record = ReleaseRecord("web", "apps", 1, "deployed", {}, {}, "a: b")
    decision = decide(Observed(proxy(), READY_CLUSTER, Adoption(CHART, "d", record, entries)), NOW)
    assert reasons(decision.status)[1][1] == reason
    taken = (len(dig(decision.status, "resources", [])), dig(decision.status, "recordDigest"))
    assert taken == ((count, record.digest) if count == 3 else (0, None))


@pytest.mark.parametrize(
    ("chart", "beginning"), [("My_Chart", "my-chart-"), ("_", "release-"), ("-a-", "a-"), ("ä+b.c", "b-")]
)
def test_generated_name_is_a_dns_name_of_this_proxy(chart: str, beginning: str) -> None:
    found = []
    for uid in ("a", "b"):
        obj = proxy(releaseName="", chartName=chart)
        obj["metadata"]["uid"] = uid
        [patch] = decide(Observed(obj, READY_CLUSTER), NOW).effects
        assert isinstance(patch, Patch)
        found.append(patch.patch["spec"]["releaseName"])
    assert found[0] != found[1]
    assert all(name.startswith(beginning) for name in found)


@pytest.mark.parametrize(
    ("obj", "cluster", "finding"),
    [
        pytest.param(proxy(annotations={"cluster.x-k8s.io/paused": ""}), READY_CLUSTER, None, id="paused"),
        pytest.param(proxy(), {**READY_CLUSTER, "spec": {"paused": True}}, None, id="paused Cluster"),
        pytest.param(deleted(proxy()), {**READY_CLUSTER, "spec": {"paused": True}}, None, id="moved by clusterctl"),
        pytest.param(proxy(), None, LeftTo("a"), id="another controller"),
        pytest.param(deleted(proxy()), None, LeftTo("a"), id="another controller deletes"),
    ],
)
def test_proxies_of_others_are_left_alone(obj: Object, cluster: Object | None, finding: Finding | None) -> None:
    assert decide(Observed(obj, cluster, finding), NOW).writes_nothing(obj)


def test_release_that_is_installed_once_is_left_alone() -> None:
    obj = proxy(annotations={INSTALLED: "true"}, reconcileStrategy="InstallOnce")
    decision = decide(Observed(obj, READY_CLUSTER), NOW)
    assert not decision.effects
    assert reasons(decision.status)[2] == ("True", "InfoReported")
    assert decide(Observed(obj, None), NOW).requeue_after is None


@pytest.mark.parametrize(
    ("obj", "cluster", "finding", "removes", "reason"),
    [
        pytest.param(deleted(proxy()), None, None, True, "", id="Cluster is gone"),
        pytest.param(deleted(proxy()), READY_CLUSTER, None, True, "", id="nothing installed"),
        pytest.param(deleted(proxy()), READY_CLUSTER, Rival("a"), True, "", id="another proxy has it"),
        pytest.param(
            deleted(proxy()), READY_CLUSTER, ConnectionFailed("x"), False, "GetKubeconfigFailed", id="unreachable"
        ),
        pytest.param(deleted(proxy()), READY_CLUSTER, Problem("x"), False, "HelmReleaseGetFailed", id="unreadable"),
        pytest.param(
            deleted(proxy(reconcileStrategy="InstallOnce")), READY_CLUSTER, ConnectionFailed("x"), True, "", id="once"
        ),
    ],
)
def test_finalizer_goes_only_if_nothing_is_left_to_do(
    obj: Object, cluster: Object | None, finding: Finding | None, removes: bool, reason: str
) -> None:
    decision = decide(Observed(obj, cluster, finding), NOW)
    assert [type(effect) for effect in decision.effects] == ([RemoveFinalizer] if removes else [])
    assert (decision.requeue_after is None) is removes
    assert not reason or reason in [found for _, found in reasons(decision.status)]


def test_only_a_deployed_release_is_reconciled() -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    done = {"conditions": conditions, "observedGeneration": 2, "status": "deployed", "digest": "d"}

    def reconciled(obj: Object) -> bool:
        return is_reconciled(obj, change_event(obj, "update", source="/t"), NOW)

    assert reconciled(proxy(status=done))
    changes: list[Object] = [{"observedGeneration": 1}, {"status": "failed"}, {"digest": ""}, {"conditions": []}]
    for change in changes:
        assert not reconciled(proxy(status={**done, **change}))
    assert not reconciled(deleted(proxy(status=done)))


def test_options_have_the_defaults_of_helm_and_honour_explicit_values() -> None:
    assert asdict(Options.of({})) == asdict(Options())
    explicit = {"install": {"createNamespace": False}, "upgrade": {"maxHistory": 0}, "atomic": True, "timeout": "1m30s"}
    found = Options.of({"options": explicit})
    assert (found.create_namespace, found.max_history, found.wait, found.timeout) == (False, 0, True, 90.0)
    with pytest.raises(ValueError, match="duration"):
        Options.of({"options": {"timeout": "soon"}})


def test_values_are_merged_as_by_helm() -> None:
    below = {"a": {"b": 1, "c": [1]}, "d": 1}
    assert merge(below, {"a": {"c": [2], "e": None}, "d": {"f": 1}}) == {
        "a": {"b": 1, "c": [2], "e": None},
        "d": {"f": 1},
    }
    assert below == {"a": {"b": 1, "c": [1]}, "d": 1}


def test_recorded_values_are_confidential_unless_they_are_public() -> None:
    listed = [{"image": "nginx", "short": "abc", "port": 8080, "on": True}]
    recorded = {"password": "former", "pin": 84739202, "list": listed, "token": "present"}
    present = Values({"image": "nginx", "port": 8080, "token": "present"}, frozenset({"present"}))
    assert recorded_texts(recorded, present) == {"former", "84739202", "present"}


def test_values_come_from_opaque_secrets_only() -> None:
    secret = objects.secret("s", "ns", **{"values.yaml": "a: 1"})
    assert text_of(secret, "s", "values.yaml") == "a: 1"
    assert text_of({**secret, "type": "Opaque"}, "s", "none") is None
    for type_ in ("kubernetes.io/service-account-token", "helm.sh/release.v1", "cluster.x-k8s.io/secret"):
        with pytest.raises(InvalidValues, match=rf"Secret s has the type {type_}: copy .* of type Opaque"):
            text_of({**secret, "type": type_}, "s", "values.yaml")


@pytest.mark.parametrize("text", ["- a", "a: [", "text"])
def test_values_must_be_a_mapping(text: str) -> None:
    with pytest.raises(InvalidValues, match=r"spec\.values"):
        parse(text, "spec.values")
    with pytest.raises(InvalidValues) as refused:
        parse(f"{base64.b64encode(b'secret').decode()}: [", "key a", quote=False)
    assert "c2Vj" not in str(refused.value)
