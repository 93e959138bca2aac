"""Deletes releases and charts from object storage that no object refers to."""
