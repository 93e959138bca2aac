"""Why a chart cannot become objects.

All of them are facts about a release, so trying again does not help, except `HelmMissing`: that one is
about where this runs.
"""

from __future__ import annotations

from ..api.conditions import truncate


class ChartError(Exception):
    """A release's chart, values template or rendered text is unusable; the message names the file.

    A message that a template makes itself can be of any length.
    """

    def __init__(self, message: str) -> None:
        super().__init__(truncate(message))


class ArchiveError(ChartError):
    """An archive is malformed, hostile or larger than allowed."""


class ValuesError(ChartError):
    """A values template does not run, or does not give a YAML mapping."""


class RenderError(ChartError):
    """The Helm engine refuses a chart or its values."""


class HelmMissing(ChartError):
    """A chart needs the helm program and there is none."""


class OutputError(ChartError):
    """What a chart renders to is not a sequence of Kubernetes objects."""
