"""Renders a release's addons, applies them in the workload cluster, and prunes them when the release changes."""
