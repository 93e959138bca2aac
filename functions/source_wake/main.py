from functions.catalog import target

source_wake = target("source_wake")
