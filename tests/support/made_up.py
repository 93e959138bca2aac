"""Providers that do not exist elsewhere: a test publishes their releases, asks for them, and reads what is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.api.provider import CORE, CORE_NAME, PROVIDER_LABEL, ProviderKind
from shared.api.resources import CONFIG_MAP
from shared.kube import Key, Object, dig
from tests.support.provider_releases import METADATA, config_map, publish
from tests.support.provider_world import Providers


@dataclass(frozen=True)
class MadeUp:
    """One provider; `folder` is one of those that `providers.releases` has."""

    providers: Providers
    folder: Path
    kind: ProviderKind = CORE
    name: str = CORE_NAME
    namespace: str = "made-up-system"

    # -- what publishers and users do ------------------------------------------------------------------------------

    def publish(self, version: str, objects: Iterable[Object] = (), contract: str = "v1beta2") -> None:
        """Without objects it consists of a ConfigMap `<label>`, whose `value` is the version."""
        publish(self.folder, version, objects or [config_map(self.label, version)], self.kind, self._repository)
        told = METADATA.replace("v1beta2", contract)
        (self.folder / self._repository / "releases/download" / version / "metadata.yaml").write_text(told)

    def want(self, version: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        spec = {"fetchConfig": {"url": self.url}, "version": version, **spec}
        given = {name: value for name, value in spec.items() if value is not None}
        self.providers.apply(*self.key, annotations, **given)

    def install(self, version: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
        """The provider once it is ready."""
        self.want(version, annotations, **spec)
        return self.providers.until_ready(*self.key)

    def look(self) -> None:
        """An event, and all that follows."""
        self.providers.settle(*self.key)

    def delete(self) -> None:
        self.providers.client.delete(self.kind.resource, self.at)
        self.look()

    # -- what comes of it ------------------------------------------------------------------------------------------

    @property
    def object(self) -> Object:
        return self.providers.get(*self.key)

    @property
    def installed(self) -> str:
        return str(dig(self.object, "status.installedVersion", ""))

    @property
    def value(self) -> str:
        """Of the ConfigMap that it consists of; empty where that is not there."""
        found = self.providers.client.find(CONFIG_MAP, Key(self.namespace, self.label))
        return str(dig(found, "data.value", ""))

    def told(self, type_: str = "ProviderInstalled") -> tuple[str, str, str]:
        """Status, reason and message of a condition."""
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
