"""Sources of releases, one module for each type of source.

To add a type, put a module into this folder that defines `SOURCE_TYPE`, a `SourceType` with

- the URL schemes that select it,
- the form of its URLs, for messages,
- a factory that makes a `Source` (see `port`) of a `SourceUrl` and an `Access`,
- if settings have credentials for it, a function that makes an `Access` of the settings.

Nothing else refers to the module: `urls.from_url` finds it by its scheme, for ClusterStacks' `spec.sources`, for the
setting `RELEASE_SOURCE` and for the command line. Import what is slow to import inside functions, because all modules
of this folder are imported with the first URL.
"""

from .port import Source, SourceType, SourceUrl, UnusableUrl

__all__ = ["Source", "SourceType", "SourceUrl", "UnusableUrl"]
