"""Deletes the ClusterResourceSetBinding of a Cluster that is deleted."""
