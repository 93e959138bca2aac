from functions.catalog import target

cluster_rollout = target("cluster_rollout")
