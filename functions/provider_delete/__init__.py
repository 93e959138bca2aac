"""Deletes the objects of a provider that is being deleted, once no custom resources of its kinds are left."""
