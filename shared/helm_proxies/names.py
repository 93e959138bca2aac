"""Names, labels and annotations of HelmChartProxies and HelmReleaseProxies, as in Cluster API Addon Provider Helm."""

from __future__ import annotations

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

__all__ = [
    "CLUSTER_NAME_LABEL",
    "HCP_FINALIZER",
    "HCP_NAME_LABEL",
    "HRP_FINALIZER",
    "INSTALLED",
    "INSTALL_ONCE",
    "RELEASE_NAME_GENERATED",
]
