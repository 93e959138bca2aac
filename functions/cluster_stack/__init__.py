"""Reconciles ClusterStacks: finds new releases, and keeps a ClusterStackRelease for each that is wanted or in use."""
