"""All functions in one process: `functions-framework --source functions/main.py --target functions`.

Each answers at its own path, `/<name>`.
"""

from functools import partial

from functions import catalog
from shared.runtime.http import dispatch

functions = dispatch({name: partial(catalog.handler, name) for name in catalog.names()})
