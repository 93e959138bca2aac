from functions.catalog import target

provider_wake = target("provider_wake")
