"""Tools for authors of cluster stacks: build, lint and push releases."""
