"""Code that the provider functions share: reading inputs, building the status, starting the next phase."""
