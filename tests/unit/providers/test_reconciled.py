"""What a provider object alone shows: whether any phase of its installation has something to do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.provider_preflight.triggers import TRIGGERS
from shared.api.provider import FINALIZER
from shared.event import change_event
from shared.kube import Object
from shared.providers.inputs import are_installed
from shared.providers.reconciled import is_reconciled, object_hash
from shared.providers.status import COMPONENTS_AVAILABLE, PREFLIGHT_CHECK_PASSED, PROVIDER_INSTALLED
from tests.support.provider_objects import provider

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GOING = {"deletionTimestamp": "2027-01-01T00:00:00Z"}
PAUSED = {"cluster.x-k8s.io/paused": ""}
OURS = "capi-functions.dev/wait"


def conditions(**other: str) -> list[Object]:
    """Returns the conditions of a provider that works, with another status for some of them."""
    types = (PREFLIGHT_CHECK_PASSED, PROVIDER_INSTALLED, COMPONENTS_AVAILABLE, "Ready")
    return [{"type": type_, "status": other.get(type_, "True"), "reason": "x"} for type_ in types]


def settled(**status: Any) -> Object:
    """Returns a provider that works as its spec says."""
    obj = provider(
        version="v1.1.0",
        installed="v1.1.0",
        conditions=conditions(),
        metadata={"finalizers": [FINALIZER], "annotations": {OURS: "true", "example.com/note": "1"}},
    )
    obj["status"] |= {"observedGeneration": 1, "target": {"object": object_hash(obj)}, **status}
    return obj


def changed(status: Object | None = None, spec: Object | None = None, **metadata: Any) -> Object:
    """Returns the settled provider after a change."""
    obj = settled(**(status or {}))
    return {**obj, "metadata": {**obj["metadata"], **metadata}, "spec": {**obj["spec"], **(spec or {})}}


OURS_AS_BEFORE = {OURS: "true"}
NOTHING_TO_DO = {
    "installed": settled(),
    "another annotation": changed(annotations={**OURS_AS_BEFORE, "example.com/note": "2"}),
    "without annotations of others": changed(annotations=OURS_AS_BEFORE),
    "a label": changed(labels={"a": "b"}),
    "a finalizer of others": changed(finalizers=["example.com/f", FINALIZER]),
    "a status write": changed({"contract": "v1beta2"}),
    "a certificate to renew later": changed(
        {"target": {"object": object_hash(settled()), "renewAt": "2026-01-01T00:00:01Z"}}
    ),
    "paused": changed(annotations={**OURS_AS_BEFORE, **PAUSED}),
    "paused before it was installed": provider(metadata={"annotations": PAUSED}),
    "paused with another spec": changed(spec={"version": "v1.2.0"}, generation=2, annotations=PAUSED),
    "being deleted": changed(generation=2, **GOING),
}
SOMETHING_TO_DO = {
    "new": provider(version="v1.1.0"),
    "another generation": changed(generation=2, spec={"version": "v1.2.0"}),
    "no version": changed(spec={"version": ""}),
    "our annotation has another value": changed(annotations={OURS: "false"}),
    "our annotation is gone": changed(annotations={}),
    "another annotation of ours": changed(annotations={**OURS_AS_BEFORE, "capi-functions.dev/webhooks": "none"}),
    "no finalizer": changed(finalizers=[]),
    "created anew with its status": changed(uid="other"),
    "changed inputs while it was paused": settled(observedGeneration=None),
    "installed by an earlier version": settled(target={}),
    "a certificate to renew": settled(target={"object": object_hash(settled()), "renewAt": "2026-01-01T00:00:00Z"}),
    "another version installed": settled(installedVersion="v1.0.0"),
    "not ready": settled(conditions=conditions(Ready="False")),
    "the checks failed": settled(conditions=conditions(**{PREFLIGHT_CHECK_PASSED: "False"})),
    "the installation failed": settled(conditions=conditions(**{PROVIDER_INSTALLED: "False"})),
}


@pytest.mark.parametrize("change", ["add", "update"])
@pytest.mark.parametrize("found", NOTHING_TO_DO.values(), ids=NOTHING_TO_DO)
def test_object_shows_that_there_is_nothing_to_do(found: Object, change: Any) -> None:
    assert is_reconciled(found, change_event(found, change, source="/test"), NOW)


@pytest.mark.parametrize("change", ["add", "update"])
@pytest.mark.parametrize("found", SOMETHING_TO_DO.values(), ids=SOMETHING_TO_DO)
def test_object_shows_that_there_may_be_something_to_do(found: Object, change: Any) -> None:
    assert not is_reconciled(found, change_event(found, change, source="/test"), NOW)


@pytest.mark.parametrize("found", [settled(), NOTHING_TO_DO["paused"]])
def test_reference_may_be_about_what_the_provider_references(found: Object) -> None:
    assert not is_reconciled(found, change_event(found, "update", source="/provider_wake", reference=True), NOW)


def test_preflight_declares_it() -> None:
    assert TRIGGERS.is_reconciled is is_reconciled


@pytest.mark.parametrize(
    ("recorded", "installed"), [("d", True), ("other", False), (None, False)], ids=["these", "others", "none"]
)
def test_inputs_are_installed_by_their_hash(recorded: str | None, installed: bool) -> None:
    target = {"object": object_hash(settled()), "inputs": recorded}
    assert are_installed(settled(target=target), "d", NOW) is installed
    assert not are_installed(settled(target=target, installedVersion="v1.0.0"), "d", NOW)
