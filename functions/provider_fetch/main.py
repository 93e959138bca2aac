from functions.catalog import target

provider_fetch = target("provider_fetch")
