from functions.cluster_hooks.function import target

cluster_hooks = target()
