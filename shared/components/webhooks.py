"""Changes the webhooks of components for clusters that do not run the providers' pods.

A webhook without a server makes the API server reject every write of its kinds, and a conversion webhook every read of
another version. So webhooks are removed where no manager runs; where managers run as local processes, the API server
calls them by URL, because a reference to a Service needs pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from shared.kube import Object, dig
from shared.kube.crds import CRD
from shared.kube.resources import split_api_version

from .certificates import CERT_MANAGER, is_address

WEBHOOK_KINDS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService")
"""The kinds whose objects make the API server call a webhook or an extension server."""


def without_webhooks(objects: Iterable[Object]) -> list[Object]:
    """Returns the objects without the kinds of `WEBHOOK_KINDS`, and CRDs without conversion webhooks."""
    return [_unconverted(obj) for obj in objects if obj["kind"] not in WEBHOOK_KINDS]


def with_webhooks_at(objects: Iterable[Object], url: str) -> list[Object]:
    """Returns the objects with all webhooks called at a server of this machine instead of the provider's Service.

    The certificates of the provider get the name or address of the server. APIServices are left out, because they
    cannot have a URL.

    Args:
        objects: The objects of one provider.
        url: The scheme, host and port of the server, such as `https://localhost:9443` or `https://[::1]:9443`.
    """
    return [_called_at(obj, url) for obj in objects if obj["kind"] != "APIService"]


def _called_at(obj: Object, url: str) -> Object:
    match obj["kind"]:
        case "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration":
            webhooks = obj.get("webhooks") or []
            return {**obj, "webhooks": [_with_client_at(webhook, url) for webhook in webhooks]}
        case CRD.kind:
            conversion = dig(obj, "spec.conversion", {})
            if conversion.get("strategy") != "Webhook":
                return obj
            conversion = {**conversion, "webhook": _with_client_at(conversion.get("webhook") or {}, url)}
            return {**obj, "spec": {**obj["spec"], "conversion": conversion}}
        case "Certificate" if split_api_version(obj["apiVersion"])[0] == CERT_MANAGER:
            host = urlsplit(url).hostname or ""
            field = "ipAddresses" if is_address(host) else "dnsNames"
            served = [*dig(obj, ("spec", field), []), host]
            return {**obj, "spec": {**dig(obj, "spec", {}), field: served}}
    return obj


def _with_client_at(webhook: Mapping[str, Any], url: str) -> Object:
    """Returns the webhook with the URL instead of a Service; a webhook that already has a URL stays unchanged."""
    client = webhook.get("clientConfig") or {}
    if service := client.get("service"):
        others = {name: value for name, value in client.items() if name != "service"}
        client = {**others, "url": f"{url}/{str(service.get('path') or '').lstrip('/')}"}
    return {**webhook, "clientConfig": client}


def _unconverted(obj: Object) -> Object:
    if obj["kind"] != CRD.kind:
        return obj
    return {**obj, "spec": {**obj["spec"], "conversion": {"strategy": "None"}}}
