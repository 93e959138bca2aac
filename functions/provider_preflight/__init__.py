"""Checks whether a provider may be installed; these checks need no download."""
