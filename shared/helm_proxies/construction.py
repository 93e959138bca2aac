"""Constructs the HelmReleaseProxy of a Cluster from a HelmChartProxy, and compares it with the existing one.

Pure. Fields are compared by their meaning: an absent field equals its default, because Cluster API Addon Provider Helm
and the defaults of the CRDs fill in other fields than a user writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from shared import watch_filter
from shared.api.resources import CLUSTER, HELM_RELEASE_PROXY
from shared.components.durations import whole_seconds
from shared.kube import Object, dig, key_of, owner_reference
from shared.kube.selectors import MAX_VALUE_LENGTH

from .names import (
    CLUSTER_NAME_LABEL,
    HCP_NAME_LABEL,
    INSTALL_ONCE,
    INSTALLED,
    RELEASE_NAME_GENERATED,
    generated_name,
)

DEFAULT_TIER: Final = 100
"""The tier of a release whose HelmChartProxy has none."""
_HASH_LENGTH: Final = 8
_DEFAULTS: Final[Mapping[str, Any]] = {
    "version": "",
    "values": "",
    "valuesFrom": [],
    "reconcileStrategy": "Continuous",
    "applyMethod": "ServerSide",
    "tier": DEFAULT_TIER,
    "options.timeout": 600,
    "options.install.createNamespace": True,
    "options.upgrade.maxHistory": 10,
}
"""Values that mean the same as an absent field, by the path in `spec` of a HelmReleaseProxy."""
_COPIED: Final = ("reconcileStrategy", "options", "applyMethod", "tier", "clusterDeletion")
_FOLLOWED: Final = (
    *("version", "values", "valuesFrom", "reconcileStrategy", "options", "credentials", "tlsConfig"),
    *("applyMethod", "tier", "clusterDeletion"),
)
"""The fields of `spec` that an existing HelmReleaseProxy follows. The others identify the release."""


@dataclass(frozen=True)
class Rendered:
    """The fields of a HelmChartProxy that are templates, rendered for one Cluster."""

    values: str = ""
    version: str = ""
    sources: tuple[str, ...] = ()
    """The names of the objects of `spec.valuesFrom`."""


@dataclass(frozen=True)
class Change:
    """The change that a HelmReleaseProxy needs. `reinstall` deletes it, and its deletion leads to a new one."""

    kind: Literal["none", "create", "patch", "reinstall"]
    body: Object = field(default_factory=dict)
    """The object to create, or the merge patch."""


def change(proxy: Object, cluster: Object, existing: Object | None, rendered: Rendered) -> Change:
    """Returns the change that the HelmReleaseProxy of a Cluster needs.

    Args:
        proxy: The HelmChartProxy.
        cluster: The Cluster that it selects.
        existing: The HelmReleaseProxy, if it exists.
        rendered: The rendered fields; they do not count for a release to reinstall.
    """
    if existing is None:
        return Change("create", new_release(proxy, cluster, rendered))
    if is_kept_as_installed(proxy, existing):
        return Change("none")
    if must_reinstall(proxy, existing):
        return Change("reinstall")
    patch = difference(existing, desired_spec(proxy, cluster, rendered))
    labels = {name: value for name, value in watch_filter.labels(proxy).items() if _label(existing, name) != value}
    if labels:
        patch["metadata"] = {"labels": labels}
    return Change("patch", patch) if patch else Change("none")


def is_kept_as_installed(proxy: Mapping[str, Any], existing: Mapping[str, Any]) -> bool:
    """Returns whether the release stays as it is, because it was to be installed once and is installed."""
    return installs_once(proxy) and INSTALLED in dig(existing, "metadata.annotations", {})


def installs_once(proxy: Mapping[str, Any]) -> bool:
    """Returns whether a HelmChartProxy or HelmReleaseProxy has the strategy InstallOnce."""
    return bool(dig(proxy, "spec.reconcileStrategy") == INSTALL_ONCE)


def must_reinstall(proxy: Mapping[str, Any], existing: Mapping[str, Any]) -> bool:
    """Returns whether the release has another identity: chart, repository, release name, namespace of the release.

    A generated release name differs from any name in the HelmChartProxy. With InstallOnce nothing is reinstalled.
    """
    if installs_once(proxy):
        return False
    spec, found = dig(proxy, "spec", {}), dig(existing, "spec", {})
    if any(spec.get(name) != found.get(name) for name in ("chartName", "repoURL")):
        return True
    if (spec.get("namespace") or "default") != (found.get("namespace") or "default"):
        return True
    wanted = spec.get("releaseName") or ""
    if RELEASE_NAME_GENERATED in dig(existing, "metadata.annotations", {}):
        return bool(wanted)
    return bool(wanted != (found.get("releaseName") or ""))


def new_release(proxy: Object, cluster: Object, rendered: Rendered) -> Object:
    """Returns the HelmReleaseProxy to create for a Cluster, with a generated release name if there is no other."""
    spec, generated = desired_spec(proxy, cluster, rendered), {}
    if not spec.get("releaseName"):
        of = f"{dig(proxy, 'metadata.uid')}/{key_of(cluster).name}"
        spec["releaseName"] = generated_name(str(spec["chartName"]), of)
        generated = {"annotations": {RELEASE_NAME_GENERATED: "true"}}
    return {
        "apiVersion": HELM_RELEASE_PROXY.api_version,
        "kind": HELM_RELEASE_PROXY.kind,
        "metadata": {
            "name": release_proxy_name(key_of(proxy).name, key_of(cluster).name),
            "namespace": key_of(proxy).namespace,
            "labels": {
                CLUSTER_NAME_LABEL: key_of(cluster).name,
                HCP_NAME_LABEL: name_as_label(key_of(proxy).name),
                **watch_filter.labels(proxy),
            },
            "ownerReferences": [{**owner_reference(proxy, controller=True), "blockOwnerDeletion": True}],
            **generated,
        },
        "spec": spec,
    }


def desired_spec(proxy: Mapping[str, Any], cluster: Mapping[str, Any], rendered: Rendered) -> Object:
    """Returns the spec of the HelmReleaseProxy of a Cluster."""
    spec, own = dig(proxy, "spec", {}), key_of(proxy).namespace
    sources = [
        {**source, "name": name} for source, name in zip(spec.get("valuesFrom") or [], rendered.sources, strict=True)
    ]
    desired: Object = {
        "clusterRef": {
            "apiVersion": CLUSTER.api_version,
            "kind": CLUSTER.kind,
            "name": key_of(cluster).name,
            "namespace": key_of(cluster).namespace,
        },
        "chartName": spec["chartName"],
        "repoURL": spec["repoURL"],
        "releaseName": spec.get("releaseName"),
        "namespace": spec.get("namespace") or "default",
        "version": rendered.version,
        "values": rendered.values,
        "valuesFrom": sources,
        "credentials": _credentials(spec.get("credentials"), own),
        "tlsConfig": _tls(spec.get("tlsConfig"), own),
        **{name: spec.get(name) for name in _COPIED},
    }
    return {name: value for name, value in desired.items() if value not in (None, "", [])}


def difference(existing: Mapping[str, Any], desired: Mapping[str, Any]) -> Object:
    """Returns the merge patch that gives a HelmReleaseProxy the desired spec; empty if it means the same."""
    found = dig(existing, "spec", {})
    changed = [name for name in _FOLLOWED if _meaning(found, name) != _meaning(desired, name)]
    spec = {name: _replacement(found.get(name), desired.get(name)) for name in changed}
    return {"spec": spec} if spec else {}


def release_proxy_name(proxy: str, cluster: str) -> str:
    """Returns the name of a new HelmReleaseProxy, up to 63 characters, from the names of its owner and its Cluster.

    With the hash `a-b` and `c` get another name than `a` and `b-c`.
    """
    digest = hashlib.sha256(f"{proxy}/{cluster}".encode()).hexdigest()[:_HASH_LENGTH]
    prefix = f"{proxy}-{cluster}"[: MAX_VALUE_LENGTH - _HASH_LENGTH - 1].rstrip("-.")
    return f"{prefix}-{digest}"


def name_as_label(proxy: str) -> str:
    """Returns the name of a HelmChartProxy as the value of a label; a name that is too long ends with a hash."""
    if len(proxy) <= MAX_VALUE_LENGTH:
        return proxy
    digest = hashlib.sha256(proxy.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{proxy[: MAX_VALUE_LENGTH - _HASH_LENGTH - 1].rstrip('-.')}-{digest}"


def _credentials(credentials: Mapping[str, Any] | None, namespace: str) -> Object | None:
    if credentials is None:
        return None
    secret = _secret(credentials.get("secret") or {}, namespace)
    return {"secret": secret, "key": credentials.get("key") or "config.json"}


def _tls(config: Mapping[str, Any] | None, namespace: str) -> Object | None:
    if config is None or not config.get("caSecret"):
        return dict(config) if config else None
    return {**config, "caSecret": _secret(config["caSecret"], namespace)}


def _secret(reference: Mapping[str, Any], namespace: str) -> Object:
    return {**reference, "namespace": reference.get("namespace") or namespace}


def _label(obj: Mapping[str, Any], name: str) -> Any:
    return dig(obj, ("metadata", "labels", name))


def _meaning(spec: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a field of `spec` without what means the same as nothing; None for nothing."""
    value = spec.get(name)
    if name == "options" and isinstance(value, Mapping):
        value = {**value}
        if value.get("atomic"):
            value["wait"] = True
        with suppress(ValueError):  # an invalid one is compared as it is
            value["timeout"] = whole_seconds(value["timeout"]) if value.get("timeout") else None
    return _without_defaults(value, name)


def _without_defaults(value: Any, path: str) -> Any:
    if isinstance(value, Mapping):
        parts = {key: _without_defaults(part, f"{path}.{key}") for key, part in value.items()}
        return {key: part for key, part in parts.items() if part is not None} or None
    if path in _DEFAULTS and value == _DEFAULTS[path]:
        return None
    explicit = path in _DEFAULTS and not isinstance(_DEFAULTS[path], str | list)
    if value in (None, "", []) or (value is False and not explicit):
        return None
    return value


def _replacement(found: Any, desired: Any) -> Any:
    """Returns the value for a merge patch that replaces `found`, so that no key of it is left."""
    if not isinstance(found, Mapping) or not isinstance(desired, Mapping):
        return desired
    gone = dict.fromkeys(found.keys() - desired.keys())
    return gone | {key: _replacement(found.get(key), value) for key, value in desired.items()}
