"""Tells the providers that something which they depend on has changed."""
