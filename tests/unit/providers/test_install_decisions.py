"""`provider_install` as a whole, in tables: guards, what is recorded before a sync and reported after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from functions.provider_install.decide import decide
from functions.provider_install.observe import Observed
from shared.api.conditions import get_condition, rfc3339
from shared.api.provider import FINALIZER
from shared.api.resources import CLUSTERCTL_PROVIDER, CONFIG_MAP
from shared.applier.apply import FieldConflict
from shared.applier.connection import ClusterConnection
from shared.applier.inventory import SYNCED, InventoryEntry, content_hash, dump, entry_of
from shared.applier.outcome import SyncIncomplete, SyncOutcome
from shared.applier.policy import Policy, PolicyError
from shared.applier.sync import Sync
from shared.clients import ClusterClients
from shared.components.bundles import Bundle
from shared.components.certificates import CertificateRequest
from shared.components.errors import ComponentsError
from shared.effects import Patch, RemoveFinalizer
from shared.kube import Key, Object, Resource
from shared.providers import ownership
from shared.providers.inputs import FetchedComponents, Inputs
from shared.providers.storage_migration import NoCommonVersion
from shared.runtime import Decision
from tests.support.provider_objects import provider
from tests.support.results import results_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "x", namespaced=False)
SERVED = {(kind.api_version, kind.kind): kind for kind in (CONFIG_MAP, WEBHOOKS)}
FETCHED = FetchedComponents(Bundle("v1.1.0", "", "", "https://example.com"), "v1beta2")
CHECKED = {"type": "PreflightCheckPassed", "status": "True", "observedGeneration": 1}


def config_map(name: str = "a", namespace: str = "capi-system") -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {}}


WEBHOOK: Object = {"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, "metadata": {"name": "w"}}


def made(*conditions: Object, begun: datetime | None = None, inputs: str = "", **more: Any) -> Object:
    metadata = {"finalizers": [FINALIZER], **more.pop("metadata", {})}
    target = {"inputs": inputs, "begun": rfc3339(begun) if begun else None, "digest": "kept"}
    status = {"target": target, **more.pop("status", {})}
    return provider(version="v1.1.0", conditions=[CHECKED, *conditions], metadata=metadata, status=status, **more)


def observed(obj: Object | None = None, *rendered: Object, served: Any = None, **more: Any) -> Observed:
    connection = ClusterConnection(cast(ClusterClients, None), served or SERVED)
    usual: Any = {
        "digest": "d",
        "components": FETCHED,
        "rendered": list(rendered) or [config_map()],
        "management": connection,
        "policy": Policy(ownership.owner(obj or made())),
    }
    return Observed(obj or made(), **{**usual, **more})


def condition(decision: Decision | None, type_: str = "ProviderInstalled") -> tuple[str, str, str]:
    assert decision is not None
    found = get_condition((decision.status or {})["conditions"], type_) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def sync(decision: Decision) -> Sync:
    [found] = [effect for effect in decision.effects if isinstance(effect, Sync)]
    return found


def intent(decision: Decision) -> Object | None:
    """Returns the status that is recorded before the sync."""
    found = [effect.patch["status"] for effect in decision.effects if isinstance(effect, Patch) and effect.subresource]
    return found[0] if found else None


# -- guards ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(Observed(None), id="gone"),
        pytest.param(observed(made(metadata={"deletionTimestamp": "x"})), id="being deleted"),
        pytest.param(observed(made(metadata={"annotations": {"cluster.x-k8s.io/paused": ""}})), id="paused"),
        pytest.param(observed(provider(version="v1.1.0")), id="not checked"),
        pytest.param(observed(made({"type": "Ready", "status": "True"}), installed=True), id="installed"),
    ],
)
def test_nothing_is_installed(found: Observed) -> None:
    decision = decide(found, NOW)
    assert (decision.effects, decision.status, decision.reply) == ((), None, None)


@pytest.mark.parametrize("resync", [True, False])
def test_components_that_storage_has_lost_are_fetched_again(resync: bool) -> None:
    decision = decide(observed(components=None, resync=resync), NOW)
    assert decision.reply is not None
    assert (decision.reply.type, decision.reply.resync) == ("dev.capi-functions.provider.checked", resync)
    assert decision.effects == ()


KEY = Key("capi-system", "cert")
MANY = [entry_of(config_map(f"m{number}")) for number in range(7000)]
REQUEST = CertificateRequest(Key("capi-system", "serving"), KEY, ("service.capi-system.svc",))


def secret(labels: Object | None = None, annotations: Object | None = None, **data: str) -> Object:
    metadata = {"name": KEY.name, "namespace": KEY.namespace, "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "data": data, "type": "kubernetes.io/tls"}


@pytest.mark.parametrize(
    ("more", "reason", "words", "seconds"),
    [
        ({"inputs": Inputs(problem="no Secret a/b")}, "ReferencedObjectMissing", "no Secret a/b", 30.0),
        ({"policy": PolicyError("drift: what?")}, "InvalidAnnotation", "drift: what?", 120.0),
        ({"rendered": ComponentsError("no image")}, ComponentsError.reason, "no image", 120.0),
        ({"requests": [REQUEST], "secrets": {KEY: secret(x="")}}, "CertificateSecretTaken", f"{KEY}", 30.0),
        (
            {"served": {("v2", "X"): CONFIG_MAP}},
            "InstallFailed",
            "first install the CRDs that define these kinds",
            30.0,
        ),
        ({"inventory": MANY}, "TooManyObjects", "7001 objects", 120.0),
    ],
    ids=["input", "annotation", "components", "Secret", "kind", "size"],
)
def test_each_obstacle_has_a_reason_and_an_interval(more: Any, reason: str, words: str, seconds: float) -> None:
    decision = decide(observed(**more), NOW)
    assert condition(decision)[:2] == ("False", reason)
    assert words in condition(decision)[2]
    assert (decision.effects, decision.requeue_after) == ((), seconds)
    assert [event.type for event in decision.kubernetes_events] == ["Warning"]


# -- the sync -------------------------------------------------------------------------------------------------


def installed_entry(obj: Object, **more: str) -> InventoryEntry:
    """Returns the entry of an object that this sync has applied."""
    entry = entry_of(obj)
    return replace(entry, uid="u", status=SYNCED, hash=content_hash(obj), **more)


def applied(*rendered: Object, waiting: str = "") -> list[InventoryEntry]:
    """Returns the inventory after these objects were applied."""
    decision = decide(observed(None, *rendered), NOW)
    return [installed_entry(step.obj, waiting=waiting) for step in sync(decision).plan.steps]


def kinds(decision: Decision) -> list[str]:
    return [step.obj["kind"] for step in sync(decision).plan.steps]


def test_rollout_begins_with_the_intent() -> None:
    decision = decide(observed(), NOW)
    first, second = decision.effects
    assert isinstance(first, Patch)
    assert isinstance(second, Sync)
    status = first.patch["status"]
    assert (first.subresource, [entry["name"] for entry in status["resources"]]) == ("status", ["a"])
    assert status["target"] == {"inputs": "d", "digest": "kept", "begun": rfc3339(NOW)}
    reported = get_condition(status["conditions"], "ProviderInstalled") or {}
    assert (reported["status"], reported["reason"]) == ("False", "Installing")
    assert "v1.1.0: 1 object" in reported["message"]
    assert decision.kubernetes_events == ()
    assert (second.policy.recreate, str(second.policy.owner.mark)) == (True, "cluster-api")


def test_finalizer_is_set_first() -> None:
    first = decide(observed(made(metadata={"finalizers": []})), NOW).effects[0]
    assert isinstance(first, Patch)
    assert first.patch["metadata"]["finalizers"] == [FINALIZER]
    assert not isinstance(first, RemoveFinalizer)


@pytest.mark.parametrize(
    ("installed", "reason", "words"),
    [
        ("", "Installing", "v1.1.0"),
        ("v1.1.0", "Installing", "v1.1.0"),
        ("v1.0.0", "Upgrading", "from v1.0.0 to v1.1.0"),
    ],
)
def test_intent_tells_an_upgrade_from_an_installation(installed: str, reason: str, words: str) -> None:
    status = intent(decide(observed(made(installed=installed)), NOW)) or {}
    reported = get_condition(status["conditions"], "ProviderInstalled") or {}
    assert (reported["reason"], words in reported["message"]) == (reason, True)


def test_objects_in_the_providers_namespace_get_it_as_owner() -> None:
    steps = sync(decide(observed(None, config_map(), config_map("b", "other")), NOW)).plan.steps
    owners = {step.obj["metadata"]["name"]: step.obj["metadata"].get("ownerReferences") for step in steps}
    assert [reference["kind"] for reference in owners["a"]] == ["CoreProvider"]
    assert not owners["b"]


def test_clusterctl_gets_its_record_where_its_kind_is_served() -> None:
    kind = CLUSTERCTL_PROVIDER
    decision = decide(observed(served={**SERVED, (kind.api_version, kind.kind): kind}), NOW)
    [record] = [step.obj for step in sync(decision).plan.steps if step.obj["kind"] == kind.kind]
    assert (record["providerName"], record["type"], record["version"]) == ("cluster-api", "CoreProvider", "v1.1.0")
    assert (record["metadata"]["name"], record["metadata"]["namespace"]) == ("cluster-api", "capi-system")
    assert (
        record["metadata"]["labels"].items()
        >= {
            "clusterctl.cluster.x-k8s.io": "",
            "cluster.x-k8s.io/provider": "cluster-api",
            "clusterctl.cluster.x-k8s.io/core": "inventory",
        }.items()
    )
    assert [reference["kind"] for reference in record["metadata"]["ownerReferences"]] == ["CoreProvider"]


RESUMED = made(begun=NOW - timedelta(minutes=1), inputs="d")
LONG_AGO = made(begun=NOW - timedelta(minutes=11), inputs="d")


@pytest.mark.parametrize(
    ("found", "with_webhooks"),
    [
        pytest.param(observed(None, config_map(), WEBHOOK), False, id="first the backends"),
        pytest.param(observed(None, config_map()), True, id="there are none"),
        pytest.param(
            observed(RESUMED, config_map(), WEBHOOK, inventory=applied(config_map())), True, id="backends run"
        ),
        pytest.param(
            observed(RESUMED, config_map(), WEBHOOK, inventory=applied(config_map(), waiting="starts")),
            False,
            id="backends start",
        ),
        pytest.param(
            observed(LONG_AGO, config_map(), WEBHOOK, inventory=applied(config_map(), waiting="starts")),
            True,
            id="backends had their time",
        ),
        pytest.param(
            observed(made(inputs="d"), config_map(), WEBHOOK, inventory=applied(config_map(), waiting="starts")),
            False,
            id="the begin is unknown",
        ),
        pytest.param(
            observed(None, config_map(), WEBHOOK, inventory=applied(config_map())), False, id="of an earlier sync"
        ),
        pytest.param(
            observed(None, config_map(), WEBHOOK, policy=Policy(ownership.owner(made()), wait=False)),
            True,
            id="nobody waits",
        ),
    ],
)
def test_webhooks_follow_once_their_backends_run(found: Observed, with_webhooks: bool) -> None:
    decision = decide(found, NOW)
    wanted = found.rendered if isinstance(found.rendered, list) else []
    assert len(kinds(decision)) == len(wanted) - (not with_webhooks)
    assert (WEBHOOKS.kind in kinds(decision)) is (with_webhooks and WEBHOOK in wanted)


# -- report ------------------------------------------------------------------------------------------------------


def reported_by(found: Observed, outcome: SyncOutcome | Exception) -> Decision:
    decision = decide(found, NOW)
    failed = isinstance(outcome, Exception)
    return decide(found, NOW, results_of(decision, {} if failed else {Sync: outcome}, outcome if failed else None))


A = InventoryEntry("", "v1", "ConfigMap", "ns", "a")


@pytest.mark.parametrize(
    ("installed", "events"), [("", ["ProviderInstalled"]), ("v1.0.0", ["ProviderInstalled", "ProviderUpgraded"])]
)
def test_installed_provider_is_reported_and_judged_next(installed: str, events: list[str]) -> None:
    obj = made(installed=installed)
    decision = reported_by(observed(obj, resync=True), SyncOutcome((A,)))
    assert condition(decision)[:2] == ("True", "ProviderInstalled")
    assert condition(decision, "ProviderUpgraded")[0] == ("True" if installed else "")
    assert decision.reply is not None
    assert (decision.reply.type, decision.reply.resync) == ("dev.capi-functions.provider.installed", True)
    status = decision.status or {}
    assert (status["installedVersion"], status["contract"], status["observedGeneration"]) == ("v1.1.0", "v1beta2", 1)
    assert status["resources"] == dump([A])
    target = status["target"]
    assert (target["inputs"], target["digest"], target["renewAt"], bool(target["object"])) == ("d", "kept", None, True)
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [
        (reason, "Normal") for reason in events
    ]


AVAILABLE, UNAVAILABLE = (
    {"type": "ComponentsAvailable", "status": status, "reason": "x"} for status in ("True", "False")
)
STARTING = InventoryEntry("apps", "v1", "Deployment", "ns", "manager", waiting="is starting")


@pytest.mark.parametrize(
    ("before", "available"),
    [
        pytest.param([], ("", "", ""), id="a first installation"),
        pytest.param([UNAVAILABLE], ("False", "x", ""), id="they did not run before"),
        pytest.param([AVAILABLE], ("Unknown", "WaitingForWorkloads", "Deployment ns/manager is starting"), id="update"),
    ],
)
def test_workloads_that_start_are_checked_once_they_run(before: list[Object], available: tuple[str, str, str]) -> None:
    decision = reported_by(observed(made(*before)), SyncOutcome((STARTING,)))
    assert condition(decision)[:2] == ("True", "ProviderInstalled")
    assert condition(decision, "ComponentsAvailable") == available
    assert decision is not None
    assert (decision.reply, decision.requeue_after) == (None, 15.0)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        pytest.param(observed(made(AVAILABLE)), SyncOutcome((replace(STARTING, waiting=""),)), id="they run"),
        pytest.param(observed(made(AVAILABLE)), SyncOutcome((replace(A, waiting="x"),)), id="no event would follow"),
        pytest.param(
            observed(made(AVAILABLE, begun=NOW, inputs="d")), SyncOutcome((STARTING,)), id="they had their time"
        ),
    ],
)
def test_workloads_are_checked_at_once_otherwise(found: Observed, outcome: SyncOutcome) -> None:
    decision = reported_by(found, outcome)
    assert decision.reply is not None
    assert condition(decision, "ComponentsAvailable")[0] == "True"


def test_installed_provider_that_is_not_ready_is_checked() -> None:
    decision = decide(observed(made(AVAILABLE), installed=True), NOW)
    assert decision.reply is not None
    assert decision.reply.type == "dev.capi-functions.provider.installed"
    assert decision.effects == ()


@pytest.mark.parametrize(("status", "kept"), [("True", "True"), ("False", "")])
def test_failed_upgrade_that_is_not_wanted_any_more_is_forgotten(status: str, kept: str) -> None:
    before = {"type": "ProviderUpgraded", "status": status, "reason": "x"}
    decision = reported_by(observed(made(before, installed="v1.1.0")), SyncOutcome())
    assert condition(decision, "ProviderUpgraded")[0] == kept


def test_backends_that_run_are_followed_by_their_webhooks() -> None:
    decision = reported_by(observed(None, config_map(), WEBHOOK), SyncOutcome((A,)))
    assert (decision.proceed, decision.status) == (True, {"resources": dump([A])})


def test_backends_that_start_are_waited_for() -> None:
    waiting = replace(A, waiting="is starting")
    decision = reported_by(observed(None, config_map(), WEBHOOK), SyncOutcome((waiting,)))
    assert condition(decision)[:2] == ("False", "WaitingForBackends")
    assert "ConfigMap ns/a is starting" in condition(decision)[2]
    assert (decision.requeue_after, decision.proceed) == (15.0, False)
    assert (decision.status or {})["resources"] == dump([waiting])


@pytest.mark.parametrize(("count", "more"), [(1, ""), (5, ""), (6, "; and 1 more")])
def test_objects_that_were_taken_over_are_reported(count: int, more: str) -> None:
    outcome = SyncOutcome(conflicts=[(A, FieldConflict(f"m{number}", "")) for number in range(count)])
    for result in (outcome, SyncIncomplete(outcome)):
        decision = reported_by(observed(), result)
        [event] = [each for each in decision.kubernetes_events if each.reason == "ObjectsTakenOver"]
        assert event.type == "Warning"
        assert event.message.endswith(f"ConfigMap ns/a (m{min(count, 5) - 1}){more}")


@pytest.mark.parametrize("installed", ["", "v1.0.0"])
@pytest.mark.parametrize(
    "error", [SyncIncomplete(SyncOutcome((replace(A, error="refused"),))), NoCommonVersion("no common version")]
)
def test_failed_rollout_is_reported_and_repeated(installed: str, error: Exception) -> None:
    decision = reported_by(observed(made(installed=installed)), error)
    assert condition(decision)[:2] == ("False", "InstallFailed")
    assert str(error) in condition(decision)[2]
    assert condition(decision, "ProviderUpgraded")[:2] == (
        ("False", "ComponentsUpgradeError") if installed else ("", "")
    )
    assert condition(decision)[2].startswith("from v1.0.0 to v1.1.0: ") is bool(installed)
    assert (decision.requeue_after, decision.reports) == (20.0, error)
    resources = dump([replace(A, error="refused")]) if isinstance(error, SyncIncomplete) else None
    assert (decision.status or {}).get("resources") == resources
    assert {event.type for event in decision.kubernetes_events} <= {"Warning", "Normal"}


def test_other_failures_are_not_reported() -> None:
    assert reported_by(observed(), ValueError("a bug")).reports is None
    assert decide(Observed(None), NOW, results_of(Decision(), {})).reports is None
    waiting = observed(components=None)
    assert decide(waiting, NOW, results_of(decide(waiting, NOW), {})) == decide(waiting, NOW)
