"""Kubernetes objects in YAML: reading and checking them, their identity, and the order to apply them in."""

from .objects import Identity, identity
from .parsing import Manifest, ManifestError, parse
from .waves import Wave, hooks_of, install_rank, waves

__all__ = [
    "Identity",
    "Manifest",
    "ManifestError",
    "Wave",
    "hooks_of",
    "identity",
    "install_rank",
    "parse",
    "waves",
]
