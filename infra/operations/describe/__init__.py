"""Describes a Cluster and its addons from the objects of the management cluster."""
