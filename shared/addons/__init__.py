"""The addons of a cluster stack in one workload cluster: their owner, release files, objects, values and history."""
