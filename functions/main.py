"""Serves all functions in one process: `functions-framework --source functions/main.py --target functions`.

Each function answers at the path `/<name>`.
"""

from functions import catalog

functions = catalog.targets()
