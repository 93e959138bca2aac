"""Fetches Helm charts into object storage on request."""
