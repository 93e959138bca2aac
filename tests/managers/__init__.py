"""Managers of other projects, built from their Go modules: `make test-managers`."""
