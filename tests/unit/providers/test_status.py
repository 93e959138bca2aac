"""What all functions of providers share: `Ready`, the events between phases, annotations, the owner of an object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.provider_fetch.triggers import TRIGGERS
from shared.api.conditions import get_condition
from shared.api.provider import CORE, INFRASTRUCTURE
from shared.applier.policy import PolicyError
from shared.kube import ApiError, Key, Object
from shared.providers import phases
from shared.providers.annotations import issues_own_certificates, omits_webhooks, own_annotations
from shared.providers.error_reporting import report_rejection
from shared.providers.peers import is_operational
from shared.providers.source_resolution import names_source
from shared.providers.status import ProviderStatusBuilder, passed_preflight
from shared.providers.storage_migration import removed_versions
from shared.triggers import PrimaryRef
from tests.support.provider_objects import provider

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DONE = {"PreflightCheckPassed": "True", "ProviderInstalled": "True", "ComponentsAvailable": "True"}


def conditions(generation: int = 1, **statuses: str) -> list[Object]:
    return [
        {"type": type_, "status": status, "reason": f"{type_}Reason", "message": "m", "observedGeneration": generation}
        for type_, status in statuses.items()
    ]


@pytest.mark.parametrize(
    ("found", "status", "reason"),
    [
        pytest.param(DONE, "True", "Ready", id="all phases done"),
        pytest.param({}, "Unknown", "InProgress", id="nothing known"),
        pytest.param({"PreflightCheckPassed": "True"}, "Unknown", "InProgress", id="not installed yet"),
        pytest.param(DONE | {"PreflightCheckPassed": "False"}, "False", "PreflightCheckPassedReason", id="not checked"),
        pytest.param(DONE | {"ProviderInstalled": "False"}, "False", "ProviderInstalledReason", id="not installed"),
        pytest.param(DONE | {"ComponentsAvailable": "False"}, "False", "ComponentsAvailableReason", id="not running"),
        pytest.param(
            DONE | {"ProviderInstalled": "False", "ComponentsAvailable": "False"},
            "False",
            "ProviderInstalledReason",
            id="the first phase that is not done",
        ),
        pytest.param(DONE | {"ProviderUpgraded": "True"}, "True", "Ready", id="upgraded"),
        pytest.param(DONE | {"ProviderUpgraded": "False"}, "False", "ProviderUpgradedReason", id="upgrade failed"),
        pytest.param(
            DONE | {"ProviderUpgraded": "False", "ProviderInstalled": "False"},
            "False",
            "ProviderUpgradedReason",
            id="the upgrade before the installation",
        ),
        pytest.param(
            DONE | {"ProviderUpgraded": "False", "PreflightCheckPassed": "False"},
            "False",
            "PreflightCheckPassedReason",
            id="the checks before the upgrade",
        ),
        pytest.param(DONE | {"Deleting": "True"}, "False", "DeletingReason", id="being deleted"),
        pytest.param(DONE | {"Deleting": "False"}, "True", "Ready", id="not being deleted"),
    ],
)
def test_ready_is_the_first_phase_that_is_not_done(found: dict[str, str], status: str, reason: str) -> None:
    builder = ProviderStatusBuilder(provider(conditions=conditions(**found)), NOW)
    ready = get_condition(builder.summarized(), "Ready") or {}
    assert (ready["status"], ready["reason"], ready["observedGeneration"]) == (status, reason, 1)


@pytest.mark.parametrize("outdated", DONE)
def test_condition_of_an_earlier_spec_does_not_make_the_present_one_ready(outdated: str) -> None:
    found = conditions(**DONE, ProviderUpgraded="True")
    before = [{**one, "observedGeneration": 0} if one["type"] == outdated else one for one in found]
    ready = get_condition(ProviderStatusBuilder(provider(conditions=before), NOW).summarized(), "Ready") or {}
    assert (ready["status"], ready["reason"]) == ("Unknown", "InProgress")
    assert ready["message"] == f"{outdated} is not known yet"


@pytest.mark.parametrize(
    ("condition", "reason", "message"),
    [
        ({"type": "Deleting", "status": "True"}, "Deleting", ""),
        ({"type": "Deleting", "status": "True", "message": "waits"}, "Deleting", "waits"),
        ({"type": "PreflightCheckPassed", "status": "False"}, "NotReady", ""),
        ({"type": "PreflightCheckPassed", "status": "False", "message": "no version"}, "NotReady", "no version"),
    ],
)
def test_ready_has_a_reason_even_if_the_phase_has_none(condition: Object, reason: str, message: str) -> None:
    ready = get_condition(ProviderStatusBuilder(provider(conditions=[condition]), NOW).summarized(), "Ready") or {}
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", reason, message)


def test_ready_names_the_phase_that_is_not_known() -> None:
    ready = get_condition(ProviderStatusBuilder(provider(), NOW).summarized(), "Ready") or {}
    assert "PreflightCheckPassed" in ready["message"]


@pytest.mark.parametrize(
    ("found", "passed"),
    [
        (conditions(PreflightCheckPassed="True"), True),
        (conditions(PreflightCheckPassed="False"), False),
        (conditions(2, PreflightCheckPassed="True"), False),
        (conditions(ProviderInstalled="True"), False),
        ([], False),
    ],
    ids=["passed", "failed", "another generation", "another condition", "none"],
)
def test_present_spec_has_passed_its_checks(found: list[Object], passed: bool) -> None:
    assert passed_preflight(provider(conditions=found)) is passed


@pytest.mark.parametrize(
    ("generation", "status", "kept"),
    [(1, "False", True), (1, "True", True), (0, "True", True), (0, "False", False), (0, "Unknown", False)],
)
def test_failure_of_an_earlier_spec_is_removed(generation: int, status: str, kept: bool) -> None:
    builder = ProviderStatusBuilder(provider(conditions=conditions(generation, A=status, B=status)), NOW)
    builder.remove_outdated("A", "Absent")
    assert [entry["type"] for entry in builder.conditions] == (["A", "B"] if kept else ["B"])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"Ready": "True"}, True),
        ({"ComponentsAvailable": "True", "Ready": "False"}, True),
        ({"ComponentsAvailable": "False", "Ready": "False"}, False),
        ({"ComponentsAvailable": "Unknown", "Ready": "False"}, True),
        ({"ProviderInstalled": "True"}, False),
    ],
    ids=["ready", "runs while an upgrade fails", "does not run", "is updated", "not known"],
)
def test_core_provider_is_operational_once_it_runs(found: dict[str, str], expected: bool) -> None:
    assert is_operational(provider(conditions=conditions(**found))) is expected


# -- phases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resync", [True, False])
def test_completion_event_is_about_the_provider(resync: bool) -> None:
    obj = provider(INFRASTRUCTURE, "docker", "capd-system", version="v1")
    event = phases.completion_event(phases.CHECKED, obj, resync=resync)
    assert (event.type, event.source, event.subject) == (
        "dev.capi-functions.provider.checked",
        "/providers",
        "infrastructure-docker",
    )
    assert (event.kind, event.key, event.resync) == ("InfrastructureProvider", Key("capd-system", "docker"), resync)
    assert TRIGGERS.key(event) == Key("capd-system", "docker")


def test_event_about_another_kind_is_of_no_provider() -> None:
    event = phases.completion_event(phases.CHECKED, provider(), resync=False)
    assert TRIGGERS.key(type(event)(**{**vars(event), "kind": "Cluster"})) is None


def reference(kind: str = "CoreProvider", group: str = "operator.cluster.x-k8s.io", name: str = "core") -> Object:
    return {"apiVersion": f"{group}/v1alpha2", "kind": kind, "name": name}


@pytest.mark.parametrize(
    ("references", "found"),
    [
        ([reference()], PrimaryRef(CORE.resource, Key("ns", "core"))),
        ([reference("Deployment", "apps"), reference()], PrimaryRef(CORE.resource, Key("ns", "core"))),
        ([reference(group="example.com")], None),
        ([reference("Deployment", "apps")], None),
        ([{}], None),
        ([], None),
        (None, None),
    ],
    ids=["a provider", "a provider besides others", "another group", "another kind", "empty", "none", "unset"],
)
def test_object_belongs_to_the_provider_that_owns_it(references: Any, found: PrimaryRef | None) -> None:
    metadata = {"namespace": "ns", "name": "x", "ownerReferences": references}
    assert phases.owning_provider({"metadata": metadata}) == found


def test_object_without_metadata_has_no_owner() -> None:
    assert phases.owning_provider({}) is None


# -- annotations and errors --------------------------------------------------------------------------------------


def annotated(**values: str) -> Object:
    found = {f"capi-functions.dev/{name}": value for name, value in values.items()}
    return provider(metadata={"annotations": {"example.com/certificates": "x", **found}})


@pytest.mark.parametrize(
    ("obj", "own_certificates", "no_webhooks"),
    [
        (annotated(), None, False),
        (annotated(certificates="own", webhooks="none"), True, True),
        (annotated(certificates="cert-manager", webhooks="install"), False, False),
        (provider(), None, False),
    ],
    ids=["neither", "own, none", "cert-manager, install", "no annotations"],
)
def test_annotations_choose_certificates_and_webhooks(
    obj: Object, own_certificates: bool | None, no_webhooks: bool
) -> None:
    assert issues_own_certificates(obj) is own_certificates
    assert omits_webhooks(obj) is no_webhooks


@pytest.mark.parametrize(
    ("read", "obj", "words"),
    [
        (issues_own_certificates, annotated(certificates="vault"), "must be one of own, cert-manager"),
        (omits_webhooks, annotated(webhooks="some"), "must be one of install, none"),
    ],
)
def test_unknown_annotation_value_is_rejected(read: Any, obj: Object, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        read(obj)


def test_only_this_projects_annotations_are_its_own() -> None:
    assert own_annotations(annotated(wait="false")) == {"capi-functions.dev/wait": "false"}


@pytest.mark.parametrize("status", ["False", "True"])
def test_rejected_request_is_reported_and_retried(status: str) -> None:
    report = report_rejection("ProviderInstalled", "Rejected", status)
    decision = report(provider(), ApiError("422: invalid"), NOW)
    found = get_condition((decision.status or {})["conditions"], "ProviderInstalled") or {}
    assert (found["status"], found["reason"], decision.requeue_after) == (status, "Rejected", 60.0)
    assert "422: invalid" in found["message"]
    assert [(event.reason, event.type) for event in decision.kubernetes_events] == [("Rejected", "Warning")]


# -- sources and stored versions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fetch_config", "expected"),
    [
        ({"url": "https://example.com"}, True),
        ({"oci": "registry.example.com/x"}, True),
        ({"selector": {}}, False),
        ({"url": ""}, False),
        (None, False),
    ],
)
def test_provider_names_a_source_by_url_or_artifact(fetch_config: Object | None, expected: bool) -> None:
    assert names_source(provider(fetchConfig=fetch_config)) is expected


@pytest.mark.parametrize(
    ("stored", "served", "removed"),
    [
        (["v1"], ["v1", "v2"], []),
        (["v1", "v2"], ["v2"], ["v1"]),
        (["v1"], [], ["v1"]),
        ([], ["v1"], []),
    ],
    ids=["kept", "one is removed", "all are removed", "nothing is stored"],
)
def test_stored_versions_that_a_new_crd_lacks_are_found(
    stored: list[str], served: list[str], removed: list[str]
) -> None:
    live, wanted = {"status": {"storedVersions": stored}}, {"spec": {"versions": [{"name": name} for name in served]}}
    assert removed_versions(live, wanted) == removed
