"""What authors of cluster stacks do with releases: build, lint, push."""
