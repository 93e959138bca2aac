"""Builds the package `cluster-api.zip`, with all parts of a management cluster, for machines without Go."""
