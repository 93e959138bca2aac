"""Runs, generates and operates what the functions need: command line, local control plane, manifests, image."""
