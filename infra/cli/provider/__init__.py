"""The commands about the providers of a management cluster."""
