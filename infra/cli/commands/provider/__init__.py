"""`capi-functions provider`: the commands for the providers of a management cluster."""
