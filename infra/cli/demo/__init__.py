"""`demo`: the main job on real parts, each step checked against the API servers before it counts."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "demo"
"""Its manifests, its sources, and its releases, built of them."""
RELEASES = FOLDER / "releases"
STACK = "local-demo-1-36"
