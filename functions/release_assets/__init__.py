"""Puts a release's files into object storage, when somebody asks for them."""
