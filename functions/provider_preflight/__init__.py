"""Whether a provider may be installed as it stands: the checks that need no download."""
