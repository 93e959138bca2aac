"""Providers' components: from the YAML of a release to the objects to apply. Lists in, lists out, no cluster needed."""
