"""The demo: a cluster stack, its releases, and the Cluster that uses them."""
