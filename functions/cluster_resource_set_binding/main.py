from functions.catalog import target

cluster_resource_set_binding = target("cluster_resource_set_binding")
