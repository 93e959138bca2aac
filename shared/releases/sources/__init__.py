"""Where releases come from: the port, its implementations, and the URLs that name them.

Beside the port, everything is loaded when a URL asks for it.
"""

from .port import Listing, Source

__all__ = ["Listing", "Source"]
