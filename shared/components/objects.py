"""Parses components, and moves their objects into the namespace of a provider.

The rules follow clusterctl, whose `generate provider` gives the same objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from shared import bounded_yaml
from shared.api.provider import COMPONENT_LABEL, PROVIDER_LABEL
from shared.kube.resources import Object, dig, split_api_version
from shared.manifests import identity

from .certificates import CERT_MANAGER, INJECT
from .errors import ComponentsError

_ADMISSION, _EXTENSIONS = "admissionregistration.k8s.io", "apiextensions.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_CLUSTER_SCOPED = frozenset(
    (
        *("Namespace", "Node", "PersistentVolume", "PodSecurityPolicy", "CertificateSigningRequest"),
        *("ClusterRoleBinding", "ClusterRole", "VolumeAttachment", "StorageClass", "CSIDriver", "CSINode"),
        *("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "CustomResourceDefinition"),
        *("PriorityClass", "RuntimeClass"),
        # Not in clusterctl's list: with the namespace that it sets, the API server rejects them.
        *("APIService", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterIssuer"),
        *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "FlowSchema", "PriorityLevelConfiguration"),
    )
)
_MAX_OBJECTS = 4_000
_LONGEST_NAME = 253
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_CITED = re.compile(r"(tag |key b?|: )['\"].*['\"]")
"""The parts of the YAML text that errors quote."""


def parse(text: str) -> list[Object]:
    """Returns the objects of all documents, in their order. Raises `ComponentsError` if one is not an object."""
    objects: list[Object] = []
    number = 0
    try:
        for number, document in enumerate(bounded_yaml.load_all(text), 1):
            if document is not None:
                objects.append(_checked(document, number))
            if len(objects) > _MAX_OBJECTS:
                raise ComponentsError(f"components: more than {_MAX_OBJECTS} objects")
    except (bounded_yaml.YAMLError, RecursionError) as error:
        # The quoted text may be the value of a variable, which may be secret.
        problem = _CITED.sub(r"\1…", " ".join(str(error).split()))
        raise ComponentsError(
            f"components: document {number + 1} is not YAML (after substitution of variables): {problem}"
        ) from None
    return objects


def _checked(document: Any, number: int) -> Object:
    if not isinstance(document, dict):
        raise ComponentsError(f"components: document {number} is a {type(document).__name__}, not an object")
    for path in ("apiVersion", "kind", "metadata.name"):
        if not isinstance(value := dig(document, path), str) or not value:
            raise ComponentsError(f"components: document {number}: {document.get('kind') or 'object'} has no {path}")
    for path, type_ in (("namespace", str), ("labels", dict), ("annotations", dict)):
        if not isinstance(dig(document["metadata"], path), type_ | None):
            what = f"{document['kind']} {document['metadata']['name']}"
            raise ComponentsError(f"components: document {number}: {what} has an invalid metadata.{path}")
    return document


# -- one namespace -------------------------------------------------------------------------------------------------


def move_to_namespace(components: Iterable[Object], namespace: str) -> list[Object]:
    """Returns the objects with their namespace, and references to it, replaced.

    Of objects with the same identity the last counts. Raises `ComponentsError`.
    """
    objects = deepcopy(list(components))
    if sum(obj["kind"] == "Namespace" for obj in objects) > 1:
        raise ComponentsError("components: no more than one resource with Kind Namespace is allowed")
    defined = _defined_scopes(objects)
    for obj in objects:
        original = str(dig(obj, "metadata.namespace", ""))
        if obj["kind"] == "Namespace":
            obj["metadata"]["name"] = namespace
        elif defined.get((split_api_version(obj["apiVersion"])[0], obj["kind"]), obj["kind"] not in _CLUSTER_SCOPED):
            obj["metadata"]["namespace"] = namespace
        for kinds, fix in _FIXES:
            if obj["kind"] in kinds:
                fix(obj, original, namespace)
    return list({identity(obj): obj for obj in objects}.values())


def _defined_scopes(objects: Iterable[Object]) -> dict[tuple[str, str], bool]:
    """Returns whether a kind is namespaced, for the kinds that CRDs among the objects define."""
    specs = [dig(obj, "spec", {}) for obj in objects if obj["kind"] == "CustomResourceDefinition"]
    return {(str(dig(spec, "group")), str(dig(spec, "names.kind"))): dig(spec, "scope") != "Cluster" for spec in specs}


def _items(value: Any) -> list[Object]:
    """Returns the mappings in a list; nothing for other values."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _fix_subjects(obj: Object, _original: str, namespace: str) -> None:
    for subject in _items(obj.get("subjects")):
        if subject.get("namespace"):
            subject["namespace"] = namespace


def _fix_webhooks(obj: Object, _original: str, namespace: str) -> None:
    _check_version(obj, _ADMISSION)
    for webhook in _items(obj.get("webhooks")):
        _move_service(webhook.get("clientConfig"), namespace)
    _fix_injection(obj, namespace)


def _fix_conversion(obj: Object, _original: str, namespace: str) -> None:
    _check_version(obj, _EXTENSIONS)
    _move_service(dig(obj, "spec.conversion.webhook.clientConfig"), namespace)
    _move_service(dig(obj, "spec.conversion.webhookClientConfig"), namespace)  # v1beta1
    _fix_injection(obj, namespace)


def _fix_service(obj: Object, _original: str, namespace: str) -> None:
    _move_service(obj.get("spec"), namespace)
    _fix_injection(obj, namespace)


def _fix_certificate(obj: Object, original: str, namespace: str) -> None:
    secret = dig(obj, "spec.secretName") if split_api_version(obj["apiVersion"])[0] == CERT_MANAGER else None
    if secret and not (isinstance(secret, str) and len(secret) <= _LONGEST_NAME and _NAME.fullmatch(secret)):
        # Not quoted, because it may be the value of a variable, which may be secret.
        raise ComponentsError(
            f"components: {obj['kind']} {obj['metadata']['name']}: spec.secretName is not a valid name"
        )
    names = dig(obj, "spec.dnsNames")
    if original and isinstance(names, list):
        obj["spec"]["dnsNames"] = [str(name).replace(f".{original}.", f".{namespace}.", 1) for name in names]


_FIXES: Sequence[tuple[tuple[str, ...], Callable[[Object, str, str], None]]] = (
    (("ClusterRoleBinding", "RoleBinding"), _fix_subjects),
    (("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"), _fix_webhooks),
    (("CustomResourceDefinition",), _fix_conversion),
    (("APIService",), _fix_service),
    (("Certificate",), _fix_certificate),
)


def _check_version(obj: Object, group: str) -> None:
    if obj["apiVersion"] not in [f"{group}/{version}" for version in _VERSIONS]:
        what = f"{obj['kind']} {obj['metadata']['name']}"
        raise ComponentsError(
            f"components: {what} has apiVersion {obj['apiVersion']}, supported are {' and '.join(_VERSIONS)}"
        )


def _move_service(client: Any, namespace: str) -> None:
    service = dig(client, "service")
    if isinstance(service, dict):
        service["namespace"] = namespace


def _fix_injection(obj: Object, namespace: str) -> None:
    value = dig(obj, ("metadata", "annotations", INJECT))
    if value is None:
        return
    parts = str(value).split("/")
    if len(parts) != 2:
        what = f"{obj['kind']} {obj['metadata']['name']}"
        raise ComponentsError(f"components: {what}: annotation {INJECT} is {value!r}, must be <namespace>/<name>")
    obj["metadata"]["annotations"][INJECT] = f"{namespace}/{parts[1]}"


# -- labels and order ----------------------------------------------------------------------------------------------


def add_labels(objects: Iterable[Object], label: str) -> list[Object]:
    """Returns the objects with clusterctl's labels; `label` is the provider's, such as `infrastructure-docker`."""
    ours = {COMPONENT_LABEL: "", PROVIDER_LABEL: label}
    return [
        {**obj, "metadata": {**obj["metadata"], "labels": {**(dig(obj, "metadata.labels") or {}), **ours}}}
        for obj in objects
    ]


def sort_for_install(objects: Iterable[Object]) -> list[Object]:
    """Returns the namespace, then cert-manager's issuers, then its other objects, then the rest in its order."""

    def rank(obj: Mapping[str, Any]) -> int:
        if obj["kind"] == "Namespace":
            return 0
        if split_api_version(obj["apiVersion"])[0] != CERT_MANAGER:
            return 3
        return 1 if obj["kind"].endswith("Issuer") else 2

    return sorted(objects, key=rank)
