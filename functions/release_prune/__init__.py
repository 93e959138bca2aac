"""Deletes releases from object storage that no object refers to."""
