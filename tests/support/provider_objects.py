"""Provider objects for tables of unit tests."""

from __future__ import annotations

from typing import Any

from shared.api import provider as provider_api
from shared.kube import Object

READY = {"type": "Ready", "status": "True", "reason": "Ready"}


def provider(
    kind: provider_api.ProviderKind = provider_api.CORE,
    name: str = provider_api.CORE_NAME,
    namespace: str = "capi-system",
    *,
    installed: str = "",
    conditions: list[Object] | None = None,
    metadata: Object | None = None,
    status: Object | None = None,
    **spec: Any,
) -> Object:
    """Returns a provider whose uid follows from kind, namespace and name. `installed` is status.installedVersion."""
    about = {"name": name, "namespace": namespace, "uid": f"{kind.type_name}/{namespace}/{name}", "generation": 1}
    known: Object = {"installedVersion": installed} if installed else {}
    return {
        "apiVersion": kind.resource.api_version,
        "kind": kind.kind,
        "metadata": {**about, "resourceVersion": "1", **(metadata or {})},
        "spec": spec,
        "status": {**known, "conditions": conditions or [], **(status or {})},
    }
