from functions.catalog import target

sweep = target("sweep")
