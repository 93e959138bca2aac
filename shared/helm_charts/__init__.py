"""Helm charts from https and OCI repositories: requested by events, fetched once, kept in object storage."""
