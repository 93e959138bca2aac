"""Keeps whole numbers whole inside the Helm engine.

Helm takes values as JSON, so every number is a Go float64 and 10485760 prints as `1.048576e+07`: wrong in
arguments, annotations and config files. Handing such numbers over as strings would put quotes around them
wherever a chart says `toYaml`. So a template is added to the chart which runs before all others and
replaces such floats, wherever they are in the values, by Go integers: just what `helm --set` makes of them,
hence what charts are prepared for.

Helm executes the most deeply nested template files first and gives all of them the same values; the added
file therefore sits one level deeper than any other. Beyond 2**53 Helm has lost digits before any template
runs.
"""

from __future__ import annotations

import gzip
import tarfile
from typing import Final

FROM: Final = 1_000_000
"""Where Go begins to print floats with an exponent."""

_TEMPLATE: Final = """\
{{- define "integers.map" -}}
  {{- range $key, $value := . -}}
    {{- $box := dict "value" $value -}}
    {{- include "integers.box" $box -}}
    {{- $_ := set $ $key $box.value -}}
  {{- end -}}
{{- end -}}
{{- define "integers.box" -}}
  {{- if kindIs "map" .value -}}
    {{- include "integers.map" .value -}}
  {{- else if kindIs "slice" .value -}}
    {{- $items := list -}}
    {{- range .value -}}
      {{- $box := dict "value" . -}}
      {{- include "integers.box" $box -}}
      {{- $items = append $items $box.value -}}
    {{- end -}}
    {{- $_ := set . "value" $items -}}
  {{- else if kindIs "float64" .value -}}
    {{- $exact := and (gt .value -9007199254740992.0) (lt .value 9007199254740992.0) -}}
    {{- $large := or (ge .value FROM.0) (le .value -FROM.0) -}}
    {{- if and $exact $large (eq .value (floor .value)) -}}
      {{- $_ := set . "value" (int64 .value) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- include "integers.map" .Values -}}
"""


def template(start: int = FROM) -> str:
    """The template; numbers with an absolute value below `start` stay floats."""
    return _TEMPLATE.replace("FROM", str(start))


def guarded(chart: bytes, depth: int) -> bytes:
    """The chart archive with the template added, deeper than `depth`, that of the archive's most deeply nested file.

    A gzip file may be several, one after the other, and so the chart itself is not touched: the new
    member's tar record is compressed alone and put in front.
    """
    content = template().encode()
    member = tarfile.TarInfo("chart/templates/" + "~/" * (depth + 1) + "integers.yaml")
    member.size = len(content)
    record = member.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)
    return gzip.compress(record, mtime=0) + chart
