"""Cluster stack releases: how they are named, what they hold, where they come from, how they are kept."""
