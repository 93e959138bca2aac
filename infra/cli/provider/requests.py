"""What providers the command line asks for, as `name[:[namespace:]version]`, and the objects that ask for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.api.cluster import PAUSED_ANNOTATION
from shared.api.provider import BOOTSTRAP, CONTROL_PLANE, CORE, CORE_NAME, INFRASTRUCTURE, KINDS, ProviderKind
from shared.applier.policy import PREFIX, Policy, PolicyError
from shared.components import versions
from shared.kube import Key, Object, Resource
from shared.providers.annotations import issues_own_certificates, omits_webhooks

from ..failures import Failure

NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)

_KUBEADM = "kubeadm"
_FORM = "name, name:version, name:namespace or name:namespace:version"
_LIKE_VERSION = re.compile(r"v?[0-9]+\.[^:]*")
"""No namespace has a dot."""
_MEANT_AS_VERSION = re.compile(r"v[^-]*|v?[0-9].*")
"""As the only thing after the name. A mistyped version is not to become a namespace."""
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


@dataclass(frozen=True)
class Settings:
    """What all providers are given; `secret` without a namespace is beside each."""

    secret: Key | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """One provider; without a version the newest. `implied`: asked for by another one."""

    kind: ProviderKind
    name: str
    namespace: str
    version: str = ""
    implied: bool = False
    watched: str = ""
    """The only namespace that it looks at; empty for all."""
    paused: bool = False

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}"

    def dump(self, settings: Settings | None = None) -> Object:
        spec: Object = {"version": self.version} if self.version else {}
        settings = settings or Settings()
        if secret := settings.secret:
            spec["configSecret"] = {"name": secret.name, "namespace": secret.namespace or self.namespace}
        if self.watched:
            spec["manager"] = {"cacheNamespace": self.watched}
        metadata: Object = {"name": self.name, "namespace": self.namespace}
        if annotations := {**settings.annotations, **({PAUSED_ANNOTATION: "true"} if self.paused else {})}:
            metadata["annotations"] = annotations
        return {
            "apiVersion": self.kind.resource.api_version,
            "kind": self.kind.kind,
            "metadata": metadata,
            "spec": spec,
        }


def kind_named(text: str) -> ProviderKind:
    """By kind, plural or short name, or by its word, such as `infrastructure`. Raises `Failure`."""
    word = text.lower()
    for kind in KINDS:
        if word in (kind.kind.lower(), kind.resource.plural, kind.short_name, kind.type_name, kind.prefix):
            return kind
    raise Failure(f"{text!r} is no kind of provider: it may be {', '.join(kind.prefix for kind in KINDS)}")


def parse(kind: ProviderKind, text: str) -> Wanted:
    """Raises `Failure`."""
    where, parts = f"--{kind.prefix} {text!r}", text.split(":")
    if not 1 <= len(parts) <= 3 or not parts[0] or not parts[-1]:
        raise Failure(f"{where}: want {_FORM}")
    name, *rest = parts
    if len(rest) == 2 and _LIKE_VERSION.fullmatch(rest[0]):
        raise Failure(f"{where}: the namespace comes before the version, as in {name}:{rest[1]}:{rest[0]}")
    if alone := len(rest) == 1 and _MEANT_AS_VERSION.fullmatch(rest[0]) is not None:
        rest.insert(0, "")
    namespace, version = (*rest, "", "")[:2]
    if version and versions.try_parse(version) is None:
        hint = f"; for namespace {version} name the version, too" if alone else ""
        raise Failure(f"{where}: {version!r} is no version such as v1.2.3{hint}; want {_FORM}")
    namespace = namespace or default_namespace(kind, name)
    if not _NAME.fullmatch(name) or not _NAMESPACE.fullmatch(namespace):
        raise Failure(f"{where}: names have lower-case letters, digits and dashes; want {_FORM}")
    if kind.is_core and name != CORE_NAME:
        raise Failure(f"{where}: the core provider is called {CORE_NAME}")
    # Releases are tagged with a `v`, and asked for by the very text.
    return Wanted(kind, name, namespace, f"v{version.removeprefix('v')}" if version else "")


def default_namespace(kind: ProviderKind, name: str) -> str:
    """As the charts and the releases of Cluster API have it."""
    if kind.is_core:
        return "capi-system"
    prefix = "capi-" if name == _KUBEADM and kind in (BOOTSTRAP, CONTROL_PLANE) else ""
    return f"{prefix}{name}-{kind.prefix}-system"


def secret_named(text: str) -> Key | None:
    """`name[:namespace]`; without a namespace that of each provider. Raises `Failure`."""
    if not text:
        return None
    name, colon, namespace = text.partition(":")
    if not _NAME.fullmatch(name) or (colon and not _NAMESPACE.fullmatch(namespace)):
        raise Failure(f"--config-secret {text!r}: want name[:namespace]")
    return Key(namespace, name)


def annotations_named(texts: Iterable[str]) -> dict[str, str]:
    """`name=value` each. Raises `Failure` for those of ours that say nothing, all at once."""
    found, wrong = {}, []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Failure(f"--annotate {text!r}: want name=value, such as {PREFIX}wait=false")
        found[name] = value
        alone: Object = {"metadata": {"annotations": {name: value}}}
        try:
            Policy.of(alone)
            issues_own_certificates(alone)
            omits_webhooks(alone)
        except PolicyError as error:
            wrong.append(str(error))
    if wrong:
        raise Failure("; ".join(wrong))
    return found


def complete(asked: Sequence[Wanted]) -> list[Wanted]:
    """With what these need, in the order of installation; what is implied is of the core provider's version.

    Raises `Failure` where one is asked for twice.
    """
    places = [(one.kind, one.name) for one in asked]
    if twice := next((one for one in asked if places.count((one.kind, one.name)) > 1), None):
        raise Failure(f"{twice.kind.kind} {twice.name} is asked for twice; there can be one of a name")
    kinds = {one.kind for one in asked}
    needed = [(CORE, CORE_NAME)] if asked else []
    if INFRASTRUCTURE in kinds:
        needed += [(BOOTSTRAP, _KUBEADM), (CONTROL_PLANE, _KUBEADM)]
    version = next((one.version for one in asked if one.kind is CORE), "")
    implied = [
        Wanted(kind, name, default_namespace(kind, name), version, implied=True)
        for kind, name in needed
        if kind not in kinds
    ]
    return sorted([*asked, *implied], key=lambda one: KINDS.index(one.kind))


def namespaces(wanted: Iterable[Wanted]) -> list[Object]:
    return [namespace_named(name) for name in dict.fromkeys(one.namespace for one in wanted)]


def namespace_named(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def manifests(wanted: Sequence[Wanted], settings: Settings) -> list[Object]:
    """All that is to be applied, the namespaces first."""
    return [*namespaces(wanted), *(one.dump(settings) for one in wanted)]
