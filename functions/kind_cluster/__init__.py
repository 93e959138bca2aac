"""Reconciles KINDClusters: small clusters for development, created by a runtime plugin."""
