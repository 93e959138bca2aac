"""Kubernetes objects in YAML: reading and checking them, their identity, and the order to apply them in."""

from .objects import Identity, identity
from .parsing import Manifest, ManifestError, documents, parse
from .waves import APPLIED_HOOKS, RELEASE_HOOKS, Operation, Wave, hooks_of, install_rank, is_hook_run, runs_in, waves

__all__ = [
    "APPLIED_HOOKS",
    "RELEASE_HOOKS",
    "Identity",
    "Manifest",
    "ManifestError",
    "Operation",
    "Wave",
    "documents",
    "hooks_of",
    "identity",
    "install_rank",
    "is_hook_run",
    "parse",
    "runs_in",
    "waves",
]
