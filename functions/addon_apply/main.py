from functions.catalog import target

addon_apply = target("addon_apply")
