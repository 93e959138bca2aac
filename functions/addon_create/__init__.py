"""Creates a ClusterAddon for each Cluster whose class names a cluster stack."""
