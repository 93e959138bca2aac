from functions.catalog import target

addon_create = target("addon_create")
