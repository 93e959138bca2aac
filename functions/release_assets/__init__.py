"""Fetches a release's files into object storage on request."""
