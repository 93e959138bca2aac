"""Serves Cluster API's lifecycle hooks: upgrades wait for addons; deletions wait for load balancers and volumes."""
