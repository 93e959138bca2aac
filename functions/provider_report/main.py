from functions.catalog import target

provider_report = target("provider_report")
