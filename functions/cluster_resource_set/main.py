from functions.catalog import target

cluster_resource_set = target("cluster_resource_set")
