"""Components without what the API server would ask their programs for, for clusters in which these do not run.

A webhook that nobody answers refuses every write of its kinds, and a conversion webhook every read in another version.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.kube import Object
from shared.kube.crds import CRD

ASKING = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService")
"""Kinds that make the API server ask a program."""


def without_webhooks(objects: Iterable[Object]) -> list[Object]:
    """All but the kinds that ask, with CRDs whose versions differ in their apiVersion only."""
    return [_unconverted(obj) for obj in objects if obj["kind"] not in ASKING]


def _unconverted(obj: Object) -> Object:
    if obj["kind"] != CRD.kind:
        return obj
    return {**obj, "spec": {**obj["spec"], "conversion": {"strategy": "None"}}}
