"""Starts the phases of providers again when something that they depend on has changed."""
