"""One release of a cluster stack: its ClusterClass objects in the management cluster, from fetching to deletion."""
