"""Reconciles HelmReleaseProxies: installs, upgrades and uninstalls a chart in the workload cluster of one Cluster."""
