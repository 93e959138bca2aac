"""Gives a Cluster the team of its Namespace."""
