from functions.catalog import target

provider_delete = target("provider_delete")
