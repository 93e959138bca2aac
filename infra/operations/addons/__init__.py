"""The addons of one Cluster: render, plan, roll back, remove."""
