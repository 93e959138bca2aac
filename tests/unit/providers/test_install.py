"""What `provider_install` plans and records, and which certificates it issues."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.provider_install import certificates, objects, planning
from functions.provider_install.observe import Observed
from shared.addons.owner import OWNER
from shared.api.provider import PROVIDER_LABEL
from shared.applier.inventory import NOT_SYNCED, SYNCED, InventoryEntry, content_hash, dump, entry_of, intent
from shared.applier.policy import Policy
from shared.components.certificates import VALIDITY, CertificateRequest
from shared.effects import Patch
from shared.kube import Key, Object, dig
from shared.providers.status import ProviderStatusBuilder
from tests.support.provider_objects import provider
from tests.support.provider_releases import config_map

NOW = datetime.now(UTC)
"""Certificates are valid from the time at which they are issued."""

# -- certificates --------------------------------------------------------------------------------------------------

REQUEST = CertificateRequest(Key("capi-system", "serving"), Key("capi-system", "cert"), ("webhook.capi-system.svc",))
CORE = provider(version="v1.0.0")


def issued(before: Object | None, now: datetime = NOW) -> dict[Key, Object]:
    return certificates.issue_due([REQUEST], {REQUEST.secret: before}, now)


def as_read(secret: Object) -> Object:
    """Returns the Secret as the API server returns it."""
    return {**secret, "metadata": {**secret["metadata"], "uid": "1", "resourceVersion": "7"}}


def test_missing_certificate_is_created_as_an_object_of_the_provider() -> None:
    secrets = issued(None)
    assert certificates.renewals(secrets, {REQUEST.secret: None}) == []
    [created] = objects.all_objects(CORE, [], {REQUEST.certificate: secrets[REQUEST.secret]}, {})
    metadata = created["metadata"]
    assert Key(metadata["namespace"], metadata["name"]) == REQUEST.secret
    assert metadata["labels"][PROVIDER_LABEL] == "cluster-api"
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == [CORE["metadata"]["uid"]]


def test_valid_certificate_is_kept_until_it_is_due() -> None:
    secret = as_read(issued(None)[REQUEST.secret])
    assert issued(secret) == {}
    [renewal] = [certificates.next_renewal([REQUEST], {REQUEST.secret: secret})]
    assert renewal is not None
    assert NOW < renewal < NOW + VALIDITY
    assert issued(secret, renewal - timedelta(seconds=1)) == {}
    assert set(issued(secret, renewal)) == {REQUEST.secret}


def test_renewed_certificate_replaces_the_one_that_was_read() -> None:
    before = as_read(issued(None)[REQUEST.secret])
    secrets = issued(before, NOW + VALIDITY)
    [effect] = certificates.renewals(secrets, {REQUEST.secret: before})
    assert isinstance(effect, Patch)
    assert effect.obj == before  # a Secret that was changed since is not overwritten
    assert dig(effect.patch, ("data", "tls.crt")) != before["data"]["tls.crt"]
    assert secrets[REQUEST.secret]["metadata"] == before["metadata"]


@pytest.mark.parametrize(
    ("data", "labels", "foreign"),
    [
        ({"tls.crt": "", "tls.key": ""}, {}, False),
        ({"password": ""}, {PROVIDER_LABEL: "cluster-api"}, False),
        ({"password": ""}, {PROVIDER_LABEL: "another"}, True),
        ({"password": ""}, {}, True),
    ],
)
def test_secret_of_another_owner_is_found(data: Object, labels: Object, foreign: bool) -> None:
    found: Object = {"metadata": {"name": "cert", "labels": labels}, "data": data}
    assert bool(certificates.foreign_secret(CORE, [REQUEST], {REQUEST.secret: found})) is foreign
    found["metadata"]["annotations"] = {"cert-manager.io/certificate-name": "serving"}
    assert certificates.foreign_secret(CORE, [REQUEST], {REQUEST.secret: found}) == ""


# -- plans ---------------------------------------------------------------------------------------------------------

MAP = config_map("settings", "1")
HOOKS: Object = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "hooks"},
}


def applied(obj: Object, **more: Any) -> InventoryEntry:
    return replace(entry_of(obj), uid="1", hash=content_hash(obj), status=SYNCED, **more)


def observed(*entries: InventoryEntry, resumed: bool = True, installed: str = "") -> Observed:
    """Returns a provider with this inventory, whose sync of the same inputs has begun if it is resumed."""
    status = {
        "resources": dump(entries),
        "target": {"inputs": "digest", "begun": "2999-01-01T00:00:00Z"} if resumed else {},
    }
    found = provider(version="v1.0.0", installed=installed, status=status)
    return Observed(found, digest="digest", inventory=entries)


def planned(seen: Observed, policy: Policy | None = None) -> tuple[list[tuple[str, str]], list[str], bool]:
    """Returns the steps, what else the plan lists, and whether it is complete."""
    builder = ProviderStatusBuilder(seen.provider or {}, NOW)
    plan, complete = planning.plan(seen, policy or Policy(OWNER), [MAP, HOOKS], builder)
    return [(step.obj["kind"], step.action) for step in plan.steps], [entry.kind for entry in plan.rest], complete


def test_first_part_lists_the_webhooks_that_follow() -> None:
    steps, rest, complete = planned(observed(resumed=False))
    assert (steps, rest, complete) == ([("ConfigMap", "apply")], [HOOKS["kind"]], False)


def test_webhooks_are_applied_once_all_else_is_ready() -> None:
    waiting = observed(applied(MAP, waiting="0 of 1 replicas are available"), entry_of(HOOKS))
    assert planned(waiting)[2] is False
    steps, rest, complete = planned(observed(applied(MAP), entry_of(HOOKS)))
    assert (steps, rest, complete) == ([("ConfigMap", "keep"), (HOOKS["kind"], "apply")], [], True)


def test_all_is_applied_at_once_without_waiting() -> None:
    steps, _, complete = planned(observed(resumed=False), Policy(OWNER, wait=False))
    assert (steps, complete) == ([("ConfigMap", "apply"), (HOOKS["kind"], "apply")], True)


@pytest.mark.parametrize(
    ("seen", "writes"),
    [
        pytest.param(observed(resumed=False), True, id="a new sync"),
        pytest.param(observed(applied(MAP), entry_of(HOOKS)), False, id="its second part"),
        pytest.param(observed(applied(MAP)), True, id="an object that is not listed yet"),
        pytest.param(observed(applied(MAP), applied(HOOKS), resumed=False), False, id="nothing to apply"),
        pytest.param(
            observed(applied(MAP), applied(HOOKS), applied(config_map("old", "1")), resumed=False),
            True,
            id="an object to delete",
        ),
    ],
)
def test_intended_objects_are_recorded_before_the_first_is_written(seen: Observed, writes: bool) -> None:
    builder = ProviderStatusBuilder(seen.provider or {}, NOW)
    plan, complete = planning.plan(seen, Policy(OWNER), [MAP, HOOKS], builder)
    effects = planning.record_intent(builder, seen, seen.provider or {}, plan, complete)
    assert bool(effects) is writes
    for effect in effects:
        assert isinstance(effect, Patch)
        assert dig(effect.patch, "status.resources") == dump(intent(plan))
        assert {entry.kind for entry in intent(plan)} >= {"ConfigMap", HOOKS["kind"]}
        assert any(entry.status == NOT_SYNCED for entry in intent(plan))
