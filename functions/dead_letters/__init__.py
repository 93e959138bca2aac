"""Keeps the events that are not delivered again."""
