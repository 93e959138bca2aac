"""Takes away everything that a provider has brought, once nothing of its kinds is left."""
