from functions.catalog import target

component_prune = target("component_prune")
