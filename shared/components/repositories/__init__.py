"""Where versions of providers come from: releases of a code host, an OCI registry, ConfigMaps of the cluster."""

from .choice import repository
from .port import Files, Repository

__all__ = ["Files", "Repository", "repository"]
