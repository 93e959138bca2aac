from functions.catalog import target

chart_assets = target("chart_assets")
