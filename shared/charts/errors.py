"""Errors of charts. A retry helps with `HelmMissing` and `NoScratchFiles` only. The others are about the release."""

from __future__ import annotations

from ..api.conditions import truncate


class ChartError(Exception):
    """A chart, a values template or its output is unusable; the message names the file.

    Templates can make messages of any length, so they are shortened.
    """

    def __init__(self, message: str) -> None:
        super().__init__(truncate(message))


class ArchiveError(ChartError):
    """An archive is malformed, hostile or larger than allowed."""


class ValuesError(ChartError):
    """A values template fails, or its output is not a YAML mapping."""


class RenderError(ChartError):
    """The Helm engine rejects a chart or its values."""


class HelmMissing(ChartError):
    """A chart needs the helm program, and there is none."""


class NoScratchFiles(ChartError):
    """The files of the helm program cannot be written, because the disk is full."""


class OutputError(ChartError):
    """The output of a chart is not a sequence of Kubernetes objects."""
