"""`demo`: the life of a workload cluster on real API servers, with each step verified."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "demo"
"""Manifests, sources, and the releases built from them."""
RELEASES = FOLDER / "releases"
STACK = "local-demo-1-36"
