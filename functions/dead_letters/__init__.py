"""Keeps events that will not be redelivered."""
