from functions.catalog import target

helm_release_proxy = target("helm_release_proxy")
