from functions.catalog import target

cluster_wake = target("cluster_wake")
