from functions.catalog import target

cluster_stack = target("cluster_stack")
