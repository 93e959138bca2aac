"""Downloads of releases and provider components: GitHub, OCI registries, web servers.

Servers are not trusted. `web` limits what a request may cost, `ingest` checks the names, sizes and digests of files,
`access` keeps credentials out of messages.
"""

from .errors import ReleaseNotFound, SourceError
from .ingest import CHUNK, File, Listing, declared_size

__all__ = ["CHUNK", "File", "Listing", "ReleaseNotFound", "SourceError", "declared_size"]
