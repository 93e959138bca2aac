"""`bench`: loads a management cluster with Clusters, measures, and deletes its objects."""

PROGRESS_INTERVAL = 2.0
"""Seconds between two lines of progress."""
