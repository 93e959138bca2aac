"""Cluster stack releases: their names, content, sources and storage."""
