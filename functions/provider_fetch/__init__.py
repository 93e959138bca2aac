"""Finds out which version is wanted, and puts its files into object storage."""
