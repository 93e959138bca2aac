"""Makes integers of the values print as integers in the Helm engine.

Helm takes values as JSON, so every number is a Go float64, and 10485760 prints as `1.048576e+07`: wrong in arguments,
annotations and config files. As strings such numbers would have quotes where a chart uses `toYaml`. So this
module adds a template to the chart. The template runs before all others, and replaces such floats in the values by Go
integers, as `helm --set` does.

Helm executes the most deeply nested template files first, all with the same values. So the added file is one level
deeper than any other. Beyond 2**53 digits are lost before any template runs.
"""

from __future__ import annotations

import gzip
import tarfile
from typing import Final

FROM: Final = 1_000_000
"""From this number on Go prints floats with an exponent."""

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
    """Returns the template; numbers with an absolute value below `start` stay floats."""
    return _TEMPLATE.replace("FROM", str(start))


def with_first_template(chart: bytes, depth: int, more: str = "", *, exact: bool = True) -> bytes:
    """Returns the chart archive with the template added, below `depth`, the depth of its most deeply nested file.

    If `exact`, large integers of the values print as integers. `more` is the text of another template that runs first.
    """
    return with_template(chart, "~/" * (depth + 1) + "integers.yaml", (template() if exact else "") + more)


def with_template(chart: bytes, path: str, text: str) -> bytes:
    """Returns the chart archive with a template added, at this path below `templates`.

    Concatenated gzip files are a gzip file. So the tar record of the template is compressed alone and put in front of
    the unchanged archive.
    """
    content = text.encode()
    member = tarfile.TarInfo(f"chart/templates/{path}")
    member.size = len(content)
    record = member.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)
    return gzip.compress(record, mtime=0) + chart
