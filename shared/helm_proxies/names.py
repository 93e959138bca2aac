"""Names, labels and annotations of HelmChartProxies and HelmReleaseProxies, as in Cluster API Addon Provider Helm."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from shared.api.cluster import CLUSTER_NAME_LABEL

HCP_NAME_LABEL: Final = "helmreleaseproxy.addons.cluster.x-k8s.io/helmchartproxy-name"
"""The label of a HelmReleaseProxy with the name of its HelmChartProxy."""
HCP_FINALIZER: Final = "helmchartproxy.addons.cluster.x-k8s.io"
HRP_FINALIZER: Final = "helmreleaseproxy.addons.cluster.x-k8s.io"
RELEASE_NAME_GENERATED: Final = "helmreleaseproxy.addons.cluster.x-k8s.io/is-release-name-generated"
"""The annotation of a HelmReleaseProxy whose release name is generated (`"true"`)."""
INSTALLED: Final = "helmreleaseproxy.addons.cluster.x-k8s.io/release-successfully-installed"
"""The annotation of a HelmReleaseProxy whose release has been installed; any value counts."""

INSTALL_ONCE: Final = "InstallOnce"
"""The strategy that installs a chart and then leaves it alone."""

_MAX_NAME: Final = 53
"""Characters of a release name that Helm accepts."""
_HASH_LENGTH: Final = 10
_NOT_DNS: Final = re.compile(r"[^a-z0-9-]")


def generated_name(chart: str, of: str) -> str:
    """Returns the name of a release without one: a DNS name from the chart's name, and a hash of the text `of`."""
    base = _NOT_DNS.sub("-", chart.rpartition("/")[2].partition(".")[0].lower())
    suffix = f"-{hashlib.sha256(of.encode()).hexdigest()[:_HASH_LENGTH]}"
    return f"{base.lstrip('-')[: _MAX_NAME - len(suffix)].rstrip('-') or 'release'}{suffix}"


__all__ = [
    "CLUSTER_NAME_LABEL",
    "HCP_FINALIZER",
    "HCP_NAME_LABEL",
    "HRP_FINALIZER",
    "INSTALLED",
    "INSTALL_ONCE",
    "RELEASE_NAME_GENERATED",
    "generated_name",
]
