"""The addons of a workload cluster: its release's chart, rendered, applied, and pruned when the release changes."""
