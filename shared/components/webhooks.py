"""Removes webhooks from components, for clusters in which the providers' managers do not run.

A webhook without a server makes the API server reject every write of its kinds, and a conversion webhook every read of
another version.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.kube import Object
from shared.kube.crds import CRD

WEBHOOK_KINDS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService")
"""The kinds whose objects make the API server call a webhook or an extension server."""


def without_webhooks(objects: Iterable[Object]) -> list[Object]:
    """Returns the objects without the kinds of `WEBHOOK_KINDS`, and CRDs without conversion webhooks."""
    return [_unconverted(obj) for obj in objects if obj["kind"] not in WEBHOOK_KINDS]


def _unconverted(obj: Object) -> Object:
    if obj["kind"] != CRD.kind:
        return obj
    return {**obj, "spec": {**obj["spec"], "conversion": {"strategy": "None"}}}
