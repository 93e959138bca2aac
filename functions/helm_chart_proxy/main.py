from functions.catalog import target

helm_chart_proxy = target("helm_chart_proxy")
