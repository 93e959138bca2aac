"""The former place of `shared.releases.sources`."""

from .sources import CHUNK, File, ReleaseNotFound, Source, SourceError
from .sources.folder import FolderSource
from .sources.urls import from_env, from_url

__all__ = ["CHUNK", "File", "FolderSource", "ReleaseNotFound", "Source", "SourceError", "from_env", "from_url"]
