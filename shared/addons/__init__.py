"""The addons of one workload cluster: release files, rendered objects, generated values, rollout target, history."""
