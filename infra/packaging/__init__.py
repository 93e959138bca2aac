"""Builds the package `cluster-api.zip`: what a management cluster on one machine needs, for machines without Go."""
