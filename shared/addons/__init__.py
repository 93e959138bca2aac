"""A release's addons: its files as far as a rollout needs them, and the objects that they render to."""
