"""Fake providers: a test publishes their releases, installs them, and reads their status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from shared.api.provider import CORE, CORE_NAME, PROVIDER_LABEL, ProviderKind
from shared.api.resources import CONFIG_MAP
from shared.kube import Key, Object, dig
from shared.runtime import Answer
from tests.support.provider_releases import METADATA, config_map, publish, widget
from tests.support.provider_world import Providers

SPACE = "made-up-system"
MANAGER = Key(SPACE, "made-up-controller-manager")
"""The Deployment of the core provider, where that is `whole("made-up", …)`."""
WIDGET = widget("made-up", "v1beta1")
WIDGETS = f"{WIDGET.plural}.{WIDGET.group}"
"""The name of the CRD of `WIDGET`."""


@dataclass(frozen=True)
class FakeProvider:
    """One provider; `folder` is one of `providers.releases`."""

    providers: Providers
    folder: Path
    kind: ProviderKind = CORE
    name: str = CORE_NAME
    namespace: str = SPACE

    def other(self, kind: ProviderKind, name: str, namespace: str = SPACE) -> FakeProvider:
        """Returns another provider with the same folder of releases."""
        return replace(self, kind=kind, name=name, namespace=namespace)

    # -- what publishers and users do ------------------------------------------------------------------------------

    def publish(self, version: str, objects: Iterable[Object] | str = (), contract: str = "v1beta2") -> None:
        """Publishes a version; without objects it is one ConfigMap `<label>`, whose `value` is the version."""
        publish(self.folder, version, objects or [config_map(self.label, version)], self.kind, self._repository)
        metadata = METADATA.replace("v1beta2", contract)
        (self.folder / self._repository / "releases/download" / version / "metadata.yaml").write_text(metadata)

    def apply(self, version: str | None, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        """Applies the provider object; fields that are None are left out."""
        spec = {"fetchConfig": {"url": self.url}, "version": version, **spec}
        given = {name: value for name, value in spec.items() if value is not None}
        self.providers.apply(*self.key, annotations, **given)

    def install(self, version: str | None, annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
        """Applies the provider object and returns it once it is ready."""
        self.apply(version, annotations, **spec)
        return self.until_ready()

    def until_ready(self) -> Object:
        return self.providers.until_ready(*self.key)

    def reconcile(self, *, resync: bool = False) -> Answer:
        """Sends an event of the provider and all events that follow; returns the last answer."""
        return self.providers.reconcile(*self.key, resync=resync)

    def delete(self) -> None:
        self.providers.client.delete(self.kind.resource, self.at)
        self.reconcile()

    # -- what comes of it ------------------------------------------------------------------------------------------

    @property
    def object(self) -> Object:
        return self.providers.get(*self.key)

    @property
    def gone(self) -> bool:
        return self.providers.client.find(self.kind.resource, self.at) is None

    @property
    def installed(self) -> str:
        return str(dig(self.object, "status.installedVersion", ""))

    @property
    def value(self) -> str:
        """The `value` of its ConfigMap; empty if the ConfigMap does not exist."""
        return self.value_of(self.label)

    def value_of(self, config_map: str) -> str:
        """The `value` of another ConfigMap in its namespace; empty if that does not exist."""
        found = self.providers.client.find(CONFIG_MAP, Key(self.namespace, config_map))
        return str(dig(found, "data.value", ""))

    def condition_of(self, type_: str = "ProviderInstalled") -> tuple[str, str, str]:
        """Returns status, reason and message of a condition."""
        found = self.providers.condition(self.object, type_)
        return found["status"], found["reason"], found["message"]

    # -- names -----------------------------------------------------------------------------------------------------

    @property
    def key(self) -> tuple[ProviderKind, str, str]:
        return self.kind, self.name, self.namespace

    @property
    def at(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def label(self) -> str:
        return self.kind.label(self.name)

    @property
    def selector(self) -> str:
        return f"{PROVIDER_LABEL}={self.label}"

    @property
    def url(self) -> str:
        return self.providers.url(self.kind.file, repository=self._repository)

    @property
    def _repository(self) -> str:
        return f"made-up/{self.label}"


@pytest.fixture
def core(providers: Providers, tmp_path: Path) -> FakeProvider:
    """A core provider without releases."""
    providers.releases.append(tmp_path)
    return FakeProvider(providers, tmp_path)
