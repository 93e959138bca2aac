"""Changes the webhooks of components for clusters that do not run the providers' pods.

A webhook without a server makes the API server reject every write of its kinds, and a conversion webhook every read of
another version. So webhooks are removed where no manager runs; where managers run as local processes, the API server
calls them by URL, since a reference to a Service needs pods.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from shared.kube import Object, dig
from shared.kube.crds import CRD

from .certificates import INJECT, without_cert_manager

WEBHOOK_KINDS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService")
"""The kinds whose objects make the API server call a webhook or an extension server."""


def without_webhooks(objects: Iterable[Object]) -> list[Object]:
    """Returns the objects without the kinds of `WEBHOOK_KINDS`, and CRDs without conversion webhooks."""
    return [_unconverted(obj) for obj in objects if obj["kind"] not in WEBHOOK_KINDS]


def with_webhooks_at(objects: Iterable[Object], url: str, ca: bytes) -> list[Object]:
    """Returns the objects with all webhooks called at a server instead of the provider's Service.

    Objects of cert-manager are left out, and so are APIServices, which cannot have a URL.

    Args:
        objects: The objects of one provider.
        url: The scheme, host and port of the server, such as `https://127.0.0.1:9443`.
        ca: The CA of the server's certificate, PEM.
    """
    bundle = base64.b64encode(ca).decode()
    kept = (obj for obj in without_cert_manager(objects) if obj["kind"] != "APIService")
    return [_called_at(obj, url, bundle) for obj in kept]


def _called_at(obj: Object, url: str, bundle: str) -> Object:
    if obj["kind"] in WEBHOOK_KINDS:
        webhooks = [
            {**webhook, "clientConfig": _client_at(webhook.get("clientConfig") or {}, url, bundle)}
            for webhook in obj.get("webhooks") or []
        ]
        return _without_injection({**obj, "webhooks": webhooks})
    conversion = dig(obj, "spec.conversion", {}) if obj["kind"] == CRD.kind else {}
    if conversion.get("strategy") != "Webhook":
        return obj
    webhook = conversion.get("webhook") or {}
    client = _client_at(webhook.get("clientConfig") or {}, url, bundle)
    conversion = {**conversion, "webhook": {**webhook, "clientConfig": client}}
    return _without_injection({**obj, "spec": {**obj["spec"], "conversion": conversion}})


def _client_at(client: Mapping[str, Any], url: str, bundle: str) -> Object:
    """Returns the configuration with the URL instead of a Service; one that has a URL already is kept."""
    service = client.get("service")
    if not service:
        return dict(client)
    return {"url": f"{url}/{str(service.get('path') or '').lstrip('/')}", "caBundle": bundle}


def _without_injection(obj: Object) -> Object:
    """Returns the object without the annotation that makes cert-manager replace its CA."""
    annotations = dict(dig(obj, "metadata.annotations", {}))
    if annotations.pop(INJECT, None) is None:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _unconverted(obj: Object) -> Object:
    if obj["kind"] != CRD.kind:
        return obj
    return {**obj, "spec": {**obj["spec"], "conversion": {"strategy": "None"}}}
