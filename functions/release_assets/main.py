from functions.catalog import target

release_assets = target("release_assets")
