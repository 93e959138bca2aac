"""Deletes components from object storage that no provider installs."""
