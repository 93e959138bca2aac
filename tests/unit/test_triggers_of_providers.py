"""Which changes reach the functions of providers: what they write themselves wakes none of them."""

from __future__ import annotations

import pytest

from functions.provider_delete.triggers import TRIGGERS as DELETE
from functions.provider_preflight.triggers import TRIGGERS as PREFLIGHT
from functions.provider_wake.triggers import TRIGGERS as WAKE
from shared.api.provider import FINALIZER, HASH_ANNOTATION, PROVIDER_LABEL
from shared.event import change_event
from shared.kube import Key, Object
from shared.triggers import Triggers
from tests.support.providers_made import READY, provider

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("triggers", "after", "matters"),
    [
        (PREFLIGHT, {"generation": 2}, True),
        (PREFLIGHT, {"annotations": {"capi-functions.dev/wait": "false"}}, True),
        (PREFLIGHT, {"annotations": {HASH_ANNOTATION: "1"}}, False),
        (PREFLIGHT, {"annotations": {HASH_ANNOTATION: "1", "cluster.x-k8s.io/paused": ""}}, True),
        (PREFLIGHT, {"finalizers": [FINALIZER]}, False),
        (DELETE, GOING, True),
        (DELETE, {"annotations": {"capi-functions.dev/force-delete": "true"}}, True),
        (DELETE, {"annotations": {HASH_ANNOTATION: "1"}}, False),
        (DELETE, {"finalizers": [FINALIZER]}, False),
    ],
)
def test_by_difference(triggers: Triggers, after: Object, matters: bool) -> None:
    watch = triggers.watches[0]
    assert (watch.relevant(provider()) != watch.relevant(provider(metadata=after))) is matters


@pytest.mark.parametrize(("metadata", "concerned"), [({}, False), (GOING, True)])
def test_only_what_is_going_is_deleted(metadata: Object, concerned: bool) -> None:
    changed = provider(metadata=metadata)
    key = Key("capi-system", "cluster-api")
    assert DELETE.key(change_event(changed, "update", source="/test")) == (key if concerned else None)
    assert DELETE.key(change_event(changed, "update", source="/sweep", reference=True)) == key


@pytest.mark.parametrize(
    ("conditions", "concerned"), [([], False), ([READY | {"status": "False"}], False), ([READY], True)]
)
def test_others_hear_of_a_core_provider_that_works(conditions: list[Object], concerned: bool) -> None:
    changed = provider(conditions=conditions)
    key = Key("capi-system", "cluster-api")
    assert WAKE.key(change_event(changed, "update", source="/test")) == (key if concerned else None)
    assert WAKE.key(change_event(changed, "update", source="/sweep", reference=True)) == key


def test_what_providers_bring_is_no_input_of_any() -> None:
    selectors = {watch.resource.kind: watch.selector for watch in WAKE.watches}
    assert all(f"!{PROVIDER_LABEL}" in selectors[kind].split(",") for kind in ("Secret", "ConfigMap"))


def test_others_hear_once_that_the_core_provider_works() -> None:
    watch = WAKE.watches[0]
    before, now = provider(), provider(conditions=[READY])
    busy = provider(conditions=[READY, {"type": "ProviderUpgraded", "status": "True"}])
    assert watch.relevant(before) != watch.relevant(now) == watch.relevant(busy)
