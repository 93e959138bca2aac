from functions.catalog import target

cluster_stack_release = target("cluster_stack_release")
