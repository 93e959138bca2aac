"""The Helm release and the cluster that a chart is rendered for, and the rendered chart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..kube.client import Client
from ..kube.resources import Object, Resource

NOTES: Final = "NOTES"
"""The source of the manifest that has the notes of a chart; no file has this path."""
_MAX_NAME: Final = 53
_MAX_NAMESPACE: Final = 63
_NAME: Final = re.compile(r"[a-z0-9][-.a-z0-9]*")
_IN_CRDS: Final = re.compile(r"[^/]+/(?:charts/[^/]+/)*+crds/")


@dataclass(frozen=True)
class Release:
    """A Helm release, which templates see as `.Release`."""

    name: str
    namespace: str
    revision: int = 1
    is_upgrade: bool = False

    @property
    def problem(self) -> str:
        """Why Helm rejects the name or the namespace; empty if it accepts both."""
        if not _is_name(self.name, _MAX_NAME):
            return f"the release name {self.name[:80]!r} is not a DNS subdomain of at most {_MAX_NAME} characters"
        if not _is_name(self.namespace, _MAX_NAMESPACE) or "." in self.namespace:
            return f"the release namespace {self.namespace[:80]!r} is not a DNS label"
        return ""

    @property
    def template(self) -> str:
        """The template that sets facts of the release that engines do not know; empty for a first installation."""
        facts = {}
        if self.revision != 1:
            facts["Revision"] = str(self.revision)
        if self.is_upgrade:
            facts |= {"IsUpgrade": "true", "IsInstall": "false"}
        return "".join(f'{{{{- $_ := set .Release "{name}" {value} -}}}}\n' for name, value in facts.items())


DEFAULT: Final = Release("release-name", "default")
"""The default release of `helm template`."""


def is_in_crds(source: str) -> bool:
    """Returns whether a file is in a `crds/` folder of the chart or of a subchart."""
    return _IN_CRDS.match(source) is not None


def _is_name(text: str, longest: int) -> bool:
    parts = text.split(".")
    valid = len(text) <= longest and _NAME.fullmatch(text) is not None
    return valid and all(part and not part.startswith("-") and not part.endswith("-") for part in parts)


@dataclass(frozen=True)
class RenderedChart:
    """A rendered chart: its objects, the hooks of installation, upgrade and deletion, and its notes."""

    objects: list[Object]
    hooks: list[Object]
    notes: str = ""
    crds: list[Object] = field(default_factory=list)
    """The objects of `crds/` folders. Helm creates them at an installation, and never changes or deletes them."""


@dataclass(frozen=True)
class LiveCluster:
    """A cluster that answers lookups: its client, its `version` (`v1.36.3`), and the kinds that it serves."""

    client: Client
    version: str
    served: Mapping[tuple[str, str], Resource]
    secrets: set[str] = field(default_factory=set, compare=False, repr=False)
    """Values of the Secrets that charts have looked up: no message may quote them."""


@dataclass(frozen=True)
class Capabilities:
    """The view that charts have of a cluster: Helm's `.Capabilities`, and the objects that `lookup` finds.

    Attributes:
        version: The Kubernetes version (`v1.36.3`); empty for the engine's version.
        api_versions: The served versions and kinds (`apps/v1`, `apps/v1/Deployment`).
        live: The cluster that `lookup` reads from; without one, lookups find nothing.
    """

    version: str = ""
    api_versions: Sequence[str] = ()
    live: LiveCluster | None = None


def api_list(served: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Returns the API list of a cluster that serves these kinds, by (apiVersion, kind)."""
    return tuple(sorted({name for version, kind in served for name in (version, f"{version}/{kind}")}))


NO_CLUSTER: Final = Capabilities()
"""No cluster: the engine's own version, and no API list."""
