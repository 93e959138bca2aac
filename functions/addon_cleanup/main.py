from functions.catalog import target

addon_cleanup = target("addon_cleanup")
