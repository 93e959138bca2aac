"""Kubernetes objects in YAML: reading and checking them, their identity, and the order to apply them in."""

from .objects import Identity, identity
from .parsing import Manifest, ManifestError, documents, parse
from .waves import (
    APPLIED_HOOKS,
    HOOK_CREATION,
    HOOK_FAILED,
    HOOK_SUCCEEDED,
    RELEASE_HOOKS,
    Operation,
    Wave,
    delete_policies,
    hooks_of,
    install_rank,
    is_hook_run,
    runs_at_both_ends,
    runs_in,
    waves,
)

__all__ = [
    "APPLIED_HOOKS",
    "HOOK_CREATION",
    "HOOK_FAILED",
    "HOOK_SUCCEEDED",
    "RELEASE_HOOKS",
    "Identity",
    "Manifest",
    "ManifestError",
    "Operation",
    "Wave",
    "delete_policies",
    "documents",
    "hooks_of",
    "identity",
    "install_rank",
    "is_hook_run",
    "parse",
    "runs_at_both_ends",
    "runs_in",
    "waves",
]
