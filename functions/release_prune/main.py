from functions.catalog import target

release_prune = target("release_prune")
