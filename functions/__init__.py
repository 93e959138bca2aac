"""Each folder with a `triggers.py` is a function; the catalog finds it there, see docs/adding-a-function.md.

A folder `functions` elsewhere on the Python path adds its functions to these.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
