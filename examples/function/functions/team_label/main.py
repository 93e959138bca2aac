"""The target for functions-framework."""

from functions.catalog import target

team_label = target("team_label")
