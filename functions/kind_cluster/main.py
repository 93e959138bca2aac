from functions.catalog import target

kind_cluster = target("kind_cluster")
