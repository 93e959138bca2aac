"""Deletes releases that nobody names any more from object storage."""
