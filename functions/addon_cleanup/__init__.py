"""Deletes the load balancers and volumes that a workload cluster would leave behind at its cloud."""
