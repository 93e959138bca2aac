"""Serves all functions in one process: `functions-framework --source functions/main.py --target functions`.

Each function answers at the path `/<name>`.
"""

from functools import partial

from functions import catalog
from shared.runtime.http import dispatch

functions = dispatch({name: partial(catalog.handler, name) for name in catalog.names()})
