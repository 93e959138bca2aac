from functions.catalog import target

cluster = target("cluster")
