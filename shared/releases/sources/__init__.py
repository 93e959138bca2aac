"""Where releases come from: the port, its implementations, and the URLs that name them.

Beside the port, everything is loaded when a URL asks for it.
"""

from .port import CHUNK, File, Listing, ReleaseNotFound, Source, SourceError

__all__ = ["CHUNK", "File", "Listing", "ReleaseNotFound", "Source", "SourceError"]
