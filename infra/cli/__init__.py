"""`capi-functions` on the command line: thin shells around the packages beside it."""
