"""Repositories of provider components, one module for each type: code hosts, OCI registries, ConfigMaps, folders.

To add a type, put a module into this folder that defines `REPOSITORY_TYPE`, a `RepositoryType` with

- a predicate: does this `spec.fetchConfig` (a `RepositoryConfig`) name such a repository, by its URL for example;
- a factory that makes a `Repository` (see `port`) of it.

Nothing else refers to the module: `open_repository` tries each type of this folder in turn.
"""

from .choice import CONFIG_MAPS, is_allowed, open_repository
from .port import Files, Repository, RepositoryConfig, RepositoryType

__all__ = [
    "CONFIG_MAPS",
    "Files",
    "Repository",
    "RepositoryConfig",
    "RepositoryType",
    "is_allowed",
    "open_repository",
]
