from functions.catalog import target

provider_preflight = target("provider_preflight")
