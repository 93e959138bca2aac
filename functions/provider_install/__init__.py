"""Brings a provider's objects to what its components, its spec and its Secret make of them."""
