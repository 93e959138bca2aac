from functions.catalog import target

provider_install = target("provider_install")
