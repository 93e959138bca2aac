"""A release's addons for one cluster: files, values that are generated once, target and progress, rendered objects."""
