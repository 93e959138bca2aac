"""Applies the objects in Secrets and ConfigMaps to all workload clusters that a ClusterResourceSet selects."""
