"""Moves the Clusters that a ClusterRollout selects to a ClusterClass, wave by wave."""
