"""The checks of `provider_preflight`, in tables. PF numbers are those of Cluster API Operator's acceptance cases."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.provider_preflight.decide import PEER_RETRY, decide
from functions.provider_preflight.observe import Observed
from shared.api.conditions import get_condition
from shared.api.provider import BOOTSTRAP, CORE, INFRASTRUCTURE
from shared.kube import Object, dig
from shared.providers.inputs import Inputs
from shared.providers.phases import CHECKED, INSTALLED, event_type
from shared.providers.status import PROVIDER_INSTALLED, PROVIDER_UPGRADED
from shared.runtime import Decision
from tests.support.provider_objects import READY, provider

NOW = datetime(2027, 1, 1, tzinfo=UTC)
URL = {"url": "https://example.com/releases/latest/core-components.yaml"}
WORKING = provider(conditions=[READY])
IDLE = provider(conditions=[{**READY, "status": "False"}])


def infra(name: str = "aws", namespace: str = "ns1", **more: object) -> Object:
    return provider(INFRASTRUCTURE, name, namespace, **more)


def since(day: int, **more: Any) -> Object:
    """Returns metadata of an object created on that day."""
    return {"creationTimestamp": f"2026-12-{day:02}T00:00:00Z", **more}


def builder(decision: Decision) -> tuple[str, str, str]:
    found = get_condition(dig(decision.status, "conditions"), "PreflightCheckPassed")
    assert found
    return found["status"], found["reason"], found["message"]


PASSES = {
    "PF1 url": Observed(provider(version="v1.0.0", fetchConfig=URL)),
    "PF6 core ready elsewhere": Observed(infra(), cores=[WORKING]),
    "PF8 another of the kind": Observed(infra(), peers=[infra("metal3")], cores=[WORKING]),
    "PF9 the same in another namespace": Observed(infra(), peers=[infra("metal3", "ns2")], cores=[WORKING]),
    "PF13 no version, url": Observed(provider(fetchConfig=URL)),
    "PF15 from the catalog": Observed(provider(version="v1.0.0")),
    "a name that just fits": Observed(infra("a" * 48), cores=[WORKING]),
    "a core that works while its change is refused": Observed(
        infra(), cores=[provider(conditions=[{"type": "ComponentsAvailable", "status": "True", "reason": "x"}])]
    ),
}


@pytest.mark.parametrize("observed", PASSES.values(), ids=PASSES)
def test_valid_provider_passes_the_checks(observed: Observed) -> None:
    decision = decide(observed, NOW)
    assert builder(decision) == ("True", "PreflightChecksPassed", "All preflight checks passed")
    assert decision.reply is not None
    assert (decision.reply.type, decision.reply.kind) == (event_type(CHECKED), dig(observed.provider, "kind"))
    types = [entry["type"] for entry in dig(decision.status, "conditions")]
    assert types == ["PreflightCheckPassed", "Ready"]


FAILS = {
    "PF2 core's name": (
        Observed(provider(name="my-fancy-cluster-api", version="v1.0.0")),
        "IncorrectCoreProviderNameReason",
        ("my-fancy-cluster-api", "cluster-api"),
    ),
    "PF3 two cores": (
        Observed(provider(metadata=since(2)), peers=[provider(name="core-3", metadata=since(1))]),
        "MoreThanOneExists",
        ("capi-system/core-3", "Only one"),
    ),
    "PF5 two cores in two namespaces": (
        Observed(provider(metadata=since(2)), peers=[provider(namespace="other", metadata=since(1))]),
        "MoreThanOneExists",
        ("other/cluster-api",),
    ),
    "PF7 core not ready": (
        Observed(infra(), cores=[IDLE]),
        "WaitingForCoreProviderReady",
        ("Waiting for the CoreProvider",),
    ),
    "no core at all": (Observed(infra()), "WaitingForCoreProviderReady", ("CoreProvider",)),
    "PF10 the same twice": (
        Observed(infra(metadata=since(2)), peers=[infra(namespace="ns2", metadata=since(1))], cores=[WORKING]),
        "MoreThanOneExists",
        ("InfrastructureProvider with name aws", "ns2/aws"),
    ),
    "the same twice while both wait for a core": (
        Observed(infra(metadata=since(2)), peers=[infra(namespace="ns2", metadata=since(1))], cores=[IDLE]),
        "WaitingForCoreProviderReady",
        ("CoreProvider",),
    ),
    "PF12 version": (Observed(provider(version="one")), "IncorrectVersionFormat", ("one", "spec.version")),
    "PF14 url and selector": (
        Observed(provider(fetchConfig={**URL, "selector": {"matchLabels": {"a": "b"}}})),
        "FetchConfigValidationError",
        ("Only one", "selector and url"),
    ),
    "PF16 unknown, no source": (
        Observed(infra("my-custom-aws"), in_catalog=False, cores=[WORKING]),
        "FetchConfigValidationError",
        ("Either Selector",),
    ),
    "PF17 unknown, empty source": (
        Observed(infra("my-custom-aws", fetchConfig={}), in_catalog=False, cores=[WORKING]),
        "FetchConfigValidationError",
        ("Either Selector",),
    ),
    "a name that is no label value": (
        Observed(infra("a" * 49), cores=[WORKING]),
        "InvalidProviderName",
        ("infrastructure-aaa", "64 characters", "63"),
    ),
    "a Secret that is not there": (
        Observed(provider(), inputs=Inputs(problem="Secret ns/s (spec.configSecret) does not exist")),
        "ReferencedObjectMissing",
        ("Secret ns/s",),
    ),
}


@pytest.mark.parametrize(("observed", "reason", "words"), FAILS.values(), ids=FAILS)
def test_invalid_provider_fails_with_reason_and_message(
    observed: Observed, reason: str, words: tuple[str, ...]
) -> None:
    decision = decide(observed, NOW)
    status, reported_reason, message = builder(decision)
    assert (status, reported_reason) == ("False", reason)
    assert [word for word in words if word not in message] == []
    assert decision.reply is None
    ready = get_condition(dig(decision.status, "conditions"), "Ready") or {}
    assert (ready["status"], ready["reason"]) == ("False", reason)


NEW, GOING = since(2), since(1, deletionTimestamp="2026-12-31T00:00:00Z")
HELD = {"resources": [{"kind": "ConfigMap"}]}
RIVALS = {
    "the older": (infra(metadata=since(1)), infra(namespace="ns2", metadata=NEW)),
    "of one age the first by name": (infra(metadata=NEW), infra(namespace="ns2", metadata=NEW)),
    "what is installed, for all its youth": (
        infra(metadata=NEW, installed="v1.0.0"),
        infra(namespace="ns2", metadata=since(1)),
    ),
    "what has begun": (infra(metadata=NEW, status=HELD), infra(namespace="ns2", metadata=since(1))),
    "what stays": (infra(metadata=NEW), infra(namespace="ns2", metadata=GOING)),
    "of two that are installed the one that stays": (
        infra(metadata=NEW, installed="v1.0.0"),
        infra(namespace="ns2", metadata=GOING, installed="v1.0.0"),
    ),
    "what goes, until what it brought is gone": (
        infra(metadata=GOING, installed="v1.0.0"),
        infra(namespace="ns2", metadata=NEW),
    ),
}


@pytest.mark.parametrize(("first", "second"), RIVALS.values(), ids=RIVALS)
def test_of_two_providers_with_one_name_only_one_is_installed(first: Object, second: Object) -> None:
    """The other checks again after a while: no event arrives when the first is deleted."""
    if "deletionTimestamp" not in first["metadata"]:
        assert builder(decide(Observed(first, peers=[second], cores=[WORKING]), NOW))[0] == "True"
    refused = decide(Observed(second, peers=[first], cores=[WORKING]), NOW)
    if "deletionTimestamp" not in second["metadata"]:
        assert builder(refused)[1] == "MoreThanOneExists"
        assert refused.requeue_after == PEER_RETRY


@pytest.mark.parametrize(
    ("installed", "wanted", "passes"),
    [
        ("v1.9.0", "v2.0.0", True),
        ("v1.9.0", "v1.10.0", True),
        ("v2.0.0", "v1.9.0", False),
        ("v1.10.0", "v1.9.0", False),
        ("v1.10.1", "v1.10.0", True),
        ("v1.10.0", "v1.10.0", True),
    ],
)
def test_pf18_only_patch_versions_may_go_down(installed: str, wanted: str, passes: bool) -> None:
    decision = decide(Observed(provider(version=wanted, installed=installed)), NOW)
    status, reason, message = builder(decision)
    if passes:
        assert status == "True"
    else:
        assert (status, reason) == ("False", "UnsupportedProviderDowngradeReason")
        assert installed in message
        assert wanted in message


def test_installed_provider_is_left_unchanged() -> None:
    decision = decide(Observed(provider(version="v1.0.0", conditions=[READY]), installed=True), NOW)
    assert (decision.status, decision.effects, decision.reply) == (None, (), None)


def test_components_of_an_installed_provider_that_is_not_ready_are_checked() -> None:
    decision = decide(Observed(provider(version="v1.0.0", conditions=[]), installed=True), NOW)
    assert (decision.status, decision.effects) == (None, ())
    assert decision.reply is not None
    assert decision.reply.type == event_type(INSTALLED)


def test_changed_inputs_of_a_paused_provider_are_noted_for_the_end_of_the_pause() -> None:
    paused = provider(metadata={"annotations": {"cluster.x-k8s.io/paused": ""}}, status={"observedGeneration": 1})
    decision = decide(Observed(paused, outdated=True), NOW)
    assert (decision.status, decision.effects, decision.reply) == ({"observedGeneration": None}, (), None)


def test_provider_that_waits_has_a_condition_and_no_event() -> None:
    first = decide(Observed(infra(), cores=[IDLE]), NOW)
    assert first.kubernetes_events == ()
    again = infra(conditions=dig(first.status, "conditions"))
    second = decide(Observed(again, cores=[IDLE]), NOW)
    assert second.kubernetes_events == ()
    assert dig(second.status, "conditions") == dig(first.status, "conditions")


@pytest.mark.parametrize(
    "found",
    [
        None,
        provider(metadata={"deletionTimestamp": "2027-01-01T00:00:00Z"}),
        provider(metadata={"annotations": {"cluster.x-k8s.io/paused": ""}}),
    ],
)
def test_missing_deleted_and_paused_providers_are_ignored(found: Object | None) -> None:
    decision = decide(Observed(found), NOW)
    assert (decision.status, decision.effects, decision.reply) == (None, (), None)


def test_resync_is_passed_to_the_next_phase() -> None:
    decision = decide(Observed(provider(BOOTSTRAP, "kubeadm"), cores=[WORKING], resync=True), NOW)
    assert decision.reply is not None
    assert decision.reply.resync


def test_events_of_equal_names_have_subjects_by_kind() -> None:
    from functions.provider_preflight.triggers import TRIGGERS
    from shared.event import change_event

    both = [provider(kind, "kubeadm", "ns") for kind in (CORE, BOOTSTRAP)]
    subjects = [TRIGGERS.primary_ref(change_event(each, "update", source="/test")) for each in both]
    assert len(set(subjects)) == 2
    assert [subject.resource for subject in subjects if subject] == [CORE.resource, BOOTSTRAP.resource]


@pytest.mark.parametrize(("status", "generation", "kept"), [("False", 1, False), ("False", 2, True), ("True", 1, True)])
@pytest.mark.parametrize("version", ["v1.0.0", "one"])
def test_failed_conditions_of_another_generation_are_removed(
    version: str, status: str, generation: int, kept: bool
) -> None:
    fields = {"status": status, "reason": "ComponentsFetchError", "message": "v9.9.9 is not there"}
    before = [
        {"type": type_, "observedGeneration": generation, **fields} for type_ in (PROVIDER_INSTALLED, PROVIDER_UPGRADED)
    ]
    decision = decide(Observed(provider(version=version, metadata={"generation": 2}, conditions=before)), NOW)
    for type_ in (PROVIDER_INSTALLED, PROVIDER_UPGRADED):
        assert (get_condition(dig(decision.status, "conditions"), type_) is not None) is kept
