"""Brings a cluster, workload or management, to its desired objects: inventory, plan, apply, readiness, prune."""
