"""Wakes the ClusterRollouts of a namespace in which a Cluster, its addons or a ClusterRollout have changed."""
