"""Generates CRDs, Knative manifests and tables in docs from models and declarations."""
