"""Cluster API's lifecycle hooks: upgrades wait for addons, deletions for load balancers and volumes."""
