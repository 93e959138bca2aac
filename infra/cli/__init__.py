"""The command line `capi-functions`: commands, options and output."""
