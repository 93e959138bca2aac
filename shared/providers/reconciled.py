"""Decides from a provider object alone whether its objects are installed as its spec and annotations request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.api import cluster as cluster_api
from shared.api import provider as provider_api
from shared.api.conditions import READY, is_true, rfc3339
from shared.event import Event
from shared.kube import Object, deleting, dig, has_finalizer

from .annotations import own_annotations
from .status import PREFLIGHT_CHECK_PASSED, PROVIDER_INSTALLED

_FORMAT = "1"
"""Part of the hash. Increase it when a change of this code renders other objects from the same inputs."""


def is_reconciled(provider: Object, event: Event, now: datetime) -> bool:
    """Returns whether the provider and the event's object show no work for any phase.

    An event without an object may be about a change of an object that the provider references, which only a read can
    show.
    """
    if event.object is None:
        return False
    if deleting(provider) or cluster_api.is_paused(provider):
        return True
    return is_installed(provider, now) and is_true(dig(provider, "status.conditions"), READY)


def is_installed(provider: Object, now: datetime) -> bool:
    """Returns whether the objects of the present spec and annotations are installed.

    False once a certificate that this project issued is due for renewal.
    """
    renewal = dig(provider, "status.target.renewAt", "")
    return (
        not (renewal and renewal <= rfc3339(now))
        and bool(provider_api.spec_version(provider))
        and provider_api.installed_version(provider) == provider_api.spec_version(provider)
        and dig(provider, "status.observedGeneration") == dig(provider, "metadata.generation")
        and dig(provider, "status.target.object") == object_hash(provider)
        and has_finalizer(provider, provider_api.FINALIZER)
        and is_true(dig(provider, "status.conditions"), PREFLIGHT_CHECK_PASSED)
        and is_true(dig(provider, "status.conditions"), PROVIDER_INSTALLED)
    )


def object_hash(provider: Mapping[str, Any]) -> str:
    """Returns the SHA-256, in hex, of those inputs of the installed objects that the provider itself contains.

    Its uid salts the hash: equal values of another provider give another hash, and a recreated provider is never taken
    for its predecessor.
    """
    parts = [_FORMAT, dig(provider, "metadata.uid", ""), dig(provider, "spec", {}), own_annotations(provider)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
