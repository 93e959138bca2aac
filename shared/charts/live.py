"""The cluster that a chart is rendered for, as charts can see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..kube.client import Client
from ..kube.resources import Resource


@dataclass(frozen=True)
class LiveCluster:
    """A cluster that answers lookups: its client, its `version` (`v1.36.3`), and the kinds that it serves."""

    client: Client
    version: str
    served: Mapping[tuple[str, str], Resource]
    secrets: set[str] = field(default_factory=set, compare=False, repr=False)
    """Values of the Secrets that charts have looked up: no message may quote them."""
