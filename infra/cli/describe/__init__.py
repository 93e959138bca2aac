"""The command `describe cluster`: shows the state of a Cluster and its addons from the management cluster's objects."""
