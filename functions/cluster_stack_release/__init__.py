"""Reconciles ClusterStackReleases: applies the objects of a release's class chart in the management cluster."""
