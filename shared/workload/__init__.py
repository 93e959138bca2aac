"""What is done to a workload cluster: an inventory of our objects, their rollout, and the pruning of the rest."""
