"""Wakes the objects that depend on a Cluster that has changed."""
