"""What a workload cluster would leave behind at its cloud: load balancers and volumes, taken down before it goes."""
