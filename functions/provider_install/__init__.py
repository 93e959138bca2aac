"""Applies a provider's objects, as rendered from its components, its spec and its Secret."""
