"""Parses the providers on the command line, `name[:[namespace:]version]`, and builds the objects for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shared import semver
from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.names import OWNED, OWNED_LABEL
from shared.api.provider import (
    BOOTSTRAP,
    CONTROL_PLANE,
    CORE,
    CORE_NAME,
    INFRASTRUCTURE,
    KINDS,
    ProviderKind,
    download_labels,
)
from shared.applier.owner import Owner
from shared.applier.policy import PREFIX, Policy, PolicyError
from shared.kube import Client, Key, Object, key_of
from shared.providers.annotations import issues_own_certificates, omits_webhooks

from ..failure import Failure

_KUBEADM = "kubeadm"
_FORM = "name, name:version, name:namespace or name:namespace:version"
_LIKE_VERSION = re.compile(r"v?[0-9]+\.[^:]*")
"""The form of a version; a namespace cannot match, because namespaces have no dots."""
_MEANT_AS_VERSION = re.compile(r"v[^-]*|v?[0-9].*")
"""A text of this form that alone follows the name is a version, so that a mistyped version is no namespace."""
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


@dataclass(frozen=True)
class ProviderSettings:
    """Settings of all created providers; a `secret` without a namespace is in the namespace of each provider."""

    secret: Key | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProviderRequest:
    """One requested provider; without a version the newest. `implied` requests are added for others that need them."""

    kind: ProviderKind
    name: str
    namespace: str
    version: str = ""
    implied: bool = False
    watched: str = ""
    """The only namespace that the provider watches; empty for all."""
    paused: bool = False
    in_config_map: bool = False
    """Whether the components are in a ConfigMap of its namespace."""

    @property
    def key(self) -> Key:
        """Namespace and name of the provider object."""
        return Key(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}"

    def dump(self, settings: ProviderSettings | None = None) -> Object:
        """Returns the provider object."""
        spec: Object = {"version": self.version} if self.version else {}
        settings = settings or ProviderSettings()
        if secret := settings.secret:
            spec["configSecret"] = {"name": secret.name, "namespace": secret.namespace or self.namespace}
        if self.watched:
            spec["manager"] = {"cacheNamespace": self.watched}
        metadata: Object = {"name": self.name, "namespace": self.namespace}
        if self.in_config_map:
            labels = download_labels({"kind": self.kind.kind, "metadata": metadata})
            spec["fetchConfig"] = {"selector": {"matchLabels": labels}}
        if annotations := {**settings.annotations, **({PAUSED_ANNOTATION: "true"} if self.paused else {})}:
            metadata["annotations"] = annotations
        return {
            "apiVersion": self.kind.resource.api_version,
            "kind": self.kind.kind,
            "metadata": metadata,
            "spec": spec,
        }


def parse_kind(text: str) -> ProviderKind:
    """Returns the kind with this kind name, plural, short name or word, such as `infrastructure`.

    Raises:
        Failure: There is no such kind.
    """
    word = text.lower()
    for kind in KINDS:
        if word in (kind.kind.lower(), kind.resource.plural, kind.short_name, kind.type_name, kind.prefix):
            return kind
    raise Failure(f"{text!r} is not a kind of provider; kinds are {', '.join(kind.prefix for kind in KINDS)}")


def parse_request(kind: ProviderKind, text: str) -> ProviderRequest:
    """Parses `name[:[namespace:]version]`; without a namespace the default one.

    Raises:
        Failure: The text has another form; the message names the option.
    """
    where, parts = f"--{kind.prefix} {text!r}", text.split(":")
    if not 1 <= len(parts) <= 3 or not parts[0] or not parts[-1]:
        raise Failure(f"{where}: must be {_FORM}")
    name, *rest = parts
    if len(rest) == 2 and _LIKE_VERSION.fullmatch(rest[0]):
        raise Failure(f"{where}: the namespace comes before the version, as in {name}:{rest[1]}:{rest[0]}")
    if alone := len(rest) == 1 and _MEANT_AS_VERSION.fullmatch(rest[0]) is not None:
        rest.insert(0, "")
    namespace, version = (*rest, "", "")[:2]
    if version and semver.try_parse(version) is None:
        hint = f"; if {version} is a namespace, give the version as well" if alone else ""
        raise Failure(f"{where}: {version!r} is not a version such as v1.2.3{hint}; must be {_FORM}")
    namespace = namespace or default_namespace(kind, name)
    if not _NAME.fullmatch(name) or not _NAMESPACE.fullmatch(namespace):
        raise Failure(f"{where}: names have lower-case letters, digits and dashes; must be {_FORM}")
    if kind.is_core and name != CORE_NAME:
        raise Failure(f"{where}: the core provider must be named {CORE_NAME}")
    # Release tags begin with `v`, and a release is looked up by its exact tag.
    return ProviderRequest(kind, name, namespace, f"v{version.removeprefix('v')}" if version else "")


def default_namespace(kind: ProviderKind, name: str) -> str:
    """Returns the namespace that Cluster API's charts and releases use for the provider."""
    if kind.is_core:
        return "capi-system"
    prefix = "capi-" if name == _KUBEADM and kind in (BOOTSTRAP, CONTROL_PLANE) else ""
    return f"{prefix}{name}-{kind.prefix}-system"


def parse_secret(text: str) -> Key | None:
    """Parses `name[:namespace]`; an empty text gives None, a missing namespace an empty one.

    Raises:
        Failure: The text has another form.
    """
    if not text:
        return None
    name, colon, namespace = text.partition(":")
    if not _NAME.fullmatch(name) or (colon and not _NAMESPACE.fullmatch(namespace)):
        raise Failure(f"--config-secret {text!r}: must be name[:namespace]")
    return Key(namespace, name)


_ANY_PROVIDER = Owner("provider", {OWNED_LABEL: OWNED})


def parse_annotations(texts: Iterable[str]) -> dict[str, str]:
    """Parses annotations of the form `name=value`.

    Raises:
        Failure: Annotations of this project have unknown values; the message names all of them.
    """
    found, wrong = {}, []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Failure(f"--annotate {text!r}: must be name=value, such as {PREFIX}wait=false")
        found[name] = value
        alone: Object = {"metadata": {"annotations": {name: value}}}
        try:
            Policy.of(_ANY_PROVIDER, alone)
            issues_own_certificates(alone)
            omits_webhooks(alone)
        except PolicyError as error:
            wrong.append(str(error))
    if wrong:
        raise Failure("; ".join(wrong))
    return found


def complete(requests: Sequence[ProviderRequest]) -> list[ProviderRequest]:
    """Adds the providers that these requests need, with the core provider's version. Sorts all for the installation.

    Raises:
        Failure: A provider is requested twice.
    """
    places = [(one.kind, one.name) for one in requests]
    if duplicate := next((one for one in requests if places.count((one.kind, one.name)) > 1), None):
        raise Failure(
            f"{duplicate.kind.kind} {duplicate.name} is requested twice; a cluster can have only one of this name"
        )
    kinds = {one.kind for one in requests}
    needed = [(CORE, CORE_NAME)] if requests else []
    if INFRASTRUCTURE in kinds:
        needed += [(BOOTSTRAP, _KUBEADM), (CONTROL_PLANE, _KUBEADM)]
    version = next((one.version for one in requests if one.kind is CORE), "")
    implied = [
        ProviderRequest(kind, name, default_namespace(kind, name), version, implied=True)
        for kind, name in needed
        if kind not in kinds
    ]
    return sorted([*requests, *implied], key=lambda one: KINDS.index(one.kind))


def find_provider(client: Client, request: ProviderRequest) -> Object:
    """Returns the provider that a request names, in any namespace, because a cluster has one of a kind and name.

    Raises:
        Failure: There is no such provider, or it is in another namespace than the one on the command line.
    """
    found = [provider for provider in client.list(request.kind.resource) if key_of(provider).name == request.name]
    given = request.namespace != default_namespace(request.kind, request.name)
    matching = [provider for provider in found if key_of(provider) == request.key] or ([] if given else found)
    if len(matching) == 1:
        return matching[0]
    where = f"; it has {', '.join(str(key_of(provider)) for provider in found)}" if found else ""
    raise Failure(f"the cluster has no {request}{where}; `capi-functions provider list` lists its providers")


def namespaces(requests: Iterable[ProviderRequest]) -> list[Object]:
    """Returns the Namespace objects of the requests, without duplicates."""
    return [namespace_object(name) for name in dict.fromkeys(one.namespace for one in requests)]


def namespace_object(name: str) -> Object:
    """Returns a Namespace object."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def manifests(requests: Sequence[ProviderRequest], settings: ProviderSettings) -> list[Object]:
    """Returns all objects to apply, namespaces first."""
    return [*namespaces(requests), *(one.dump(settings) for one in requests)]
