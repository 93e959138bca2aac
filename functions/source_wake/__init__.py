"""Wakes the objects that read a Secret or ConfigMap that has changed."""
