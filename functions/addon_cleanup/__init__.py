"""Deletes what a workload cluster would leave behind at its cloud: load balancers and volumes."""
