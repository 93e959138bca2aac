"""Makes objects of rendered text, tells them apart, and puts them in an order that an API server accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from .. import yamls
from ..kube.resources import Object, dig, split_api_version
from .errors import ManifestError


class Manifest(NamedTuple):
    """YAML text of any number of objects, and the chart's file that it comes from."""

    source: str
    text: str


class Identity(NamedTuple):
    """What makes an object the same one over time; `group` is empty for the core group."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


def identity(obj: Mapping[str, Any]) -> Identity:
    """The identity of an object that has `apiVersion`, `kind` and a name."""
    metadata = obj["metadata"]
    group, _ = split_api_version(obj["apiVersion"])
    return Identity(group, obj["kind"], metadata.get("namespace") or "", metadata["name"])


def parse(texts: Iterable[Manifest], *, default_namespace: str) -> list[Object]:
    """The objects, in the order of the texts and as written there: no namespace is filled in.

    Empty documents are skipped, lists replaced by their items, and objects left out whose only Helm hooks are about
    tests, deletion or rollback. An object without a namespace and one in `default_namespace` count as the same.
    Raises ManifestError, which names the file and the document's number in it, for anything that is no object or
    occurs twice.
    """
    objects: list[Object] = []
    seen: dict[Identity, str] = {}
    for source, text in texts:
        for place, obj in _documents(source, text):
            if hooks_of(obj) and not hooks_of(obj) & _APPLIED_HOOKS:
                continue
            found = identity(obj)
            same = found._replace(namespace=found.namespace or default_namespace)
            if same in seen:
                raise ManifestError(f"{place}: {found} occurs twice, first in {seen[same]}")
            seen[same] = place
            objects.append(obj)
    return objects


def _documents(source: str, text: str) -> Iterator[tuple[str, Object]]:
    """Each object with the words for its place."""
    place = f"{source}, document 1"
    try:
        for number, document in enumerate(yamls.load_all(text), start=1):
            place = f"{source}, document {number}"
            for obj in _expanded(document, place):
                yield place, _checked(obj, place)
            place = f"{source}, document {number + 1}"
    except yamls.YAMLError as error:
        raise ManifestError(f"{place}: not YAML: {error}") from error


def _expanded(document: Any, place: str) -> Iterator[Any]:
    if document is None:
        return
    if isinstance(document, dict) and "items" in document and str(document.get("kind")).endswith("List"):
        items = document["items"] or []
        if not isinstance(items, list):
            raise ManifestError(f"{place}: {document['kind']} has 'items' that is no list")
        for item in items:
            yield from _expanded(item, place)
    else:
        yield document


def _checked(obj: Any, place: str) -> Object:
    if not isinstance(obj, dict):
        raise ManifestError(f"{place}: a {type(obj).__name__} where an object should be")
    for path in ("apiVersion", "kind", "metadata.name"):
        value = dig(obj, path)
        if not isinstance(value, str) or not value:
            raise ManifestError(f"{place}: {obj.get('kind') or 'an object'} has no {path}, or not as text")
    if not isinstance(dig(obj, "metadata.namespace", ""), str):
        raise ManifestError(f"{place}: {obj['kind']} has a metadata.namespace that is no text")
    return obj


_BEFORE: Final = {"pre-install", "pre-upgrade"}
_AFTER: Final = {"post-install", "post-upgrade"}
_APPLIED_HOOKS: Final = _BEFORE | _AFTER | {"crd-install"}


def hooks_of(obj: Mapping[str, Any]) -> set[str]:
    """The Helm hooks that an object is annotated with; empty for an ordinary one."""
    hooks = str(dig(obj, ("metadata", "annotations", "helm.sh/hook"), ""))
    return {hook.strip() for hook in hooks.split(",") if hook.strip()}


_INSTALL_ORDER: Final = (
    *("PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy"),
    *("PodDisruptionBudget", "ServiceAccount", "Secret", "ConfigMap", "StorageClass", "PersistentVolume"),
    *("PersistentVolumeClaim", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role"),
    *("RoleBinding", "Service", "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment"),
    *("HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress", "APIService"),
    *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
)
"""Helm's order."""

_RANK: Final = {kind: rank for rank, kind in enumerate(_INSTALL_ORDER)}


class Wave(NamedTuple):
    """Objects to apply at once; with `gate`, Jobs and Pods among them have to be over before the next wave."""

    objects: list[Object]
    gate: bool = False


def waves(objects: Iterable[Object]) -> list[Wave]:
    """What to apply one after the other, no wave empty: namespaces, CRDs, Helm's pre-hooks, the rest, its post-hooks.

    Hooks go by their weight. Within the rest Helm's install order holds, and the given order among objects of one rank.
    """
    namespaces: list[Object] = []
    crds: list[Object] = []
    rest: list[Object] = []
    before: dict[int, list[Object]] = {}
    after: dict[int, list[Object]] = {}
    for obj in objects:
        hooks = hooks_of(obj)
        match identity(obj)[:2]:
            case ("", "Namespace"):
                namespaces.append(obj)
            case ("apiextensions.k8s.io", "CustomResourceDefinition"):
                crds.append(obj)
            case _ if hooks & _BEFORE:
                before.setdefault(_weight(obj), []).append(obj)
            case _ if hooks & _AFTER:
                after.setdefault(_weight(obj), []).append(obj)
            case _:
                rest.append(obj)
    rest.sort(key=install_rank)
    ordered = [
        Wave(namespaces),
        Wave(crds),
        *(Wave(sorted(before[weight], key=install_rank), gate=True) for weight in sorted(before)),
        Wave(rest),
        *(Wave(sorted(after[weight], key=install_rank), gate=True) for weight in sorted(after)),
    ]
    return [wave for wave in ordered if wave.objects]


def _weight(obj: Mapping[str, Any]) -> int:
    text = str(dig(obj, ("metadata", "annotations", "helm.sh/hook-weight"), "0"))
    return int(text) if text.lstrip("+-").isdecimal() else 0


def install_rank(obj: Mapping[str, Any]) -> int:
    """Where Helm's order puts the kind of an object, or of anything with a `kind`; unknown kinds come last."""
    return _RANK.get(obj["kind"], len(_RANK))
