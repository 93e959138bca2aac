"""Resolves the wanted version of a provider and downloads its components to object storage."""
