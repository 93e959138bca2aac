"""Fields of templates that samples lack."""

from __future__ import annotations

from typing import Any

import pytest

from infra.release_tools.template_fields import ANY, missing_fields

DATA: dict[str, Any] = {
    "Cluster": {
        "metadata": {"name": "demo", "labels": {"a/b": "1"}},
        "spec": {
            "paused": False,
            "variables": [],
            "pools": [{"name": "x"}, {"name": "y", "size": 1}],
            "networks": {"pods": {"cidr": "10.0.0.0/8"}},
            "free": ANY,
        },
    }
}
MISSING = [
    ("{{ .Cluster.spec.nope }}", ".Cluster.spec.nope"),
    ("{{- .Cluster.spec.nope | quote -}}", ".Cluster.spec.nope"),
    ("{{ printf `%s` .Cluster.metadata.name .Cluster.spec.nope }}", ".Cluster.spec.nope"),
    ("{{ (upper .Cluster.nope) }}", ".Cluster.nope"),
    ("{{ if .Cluster.nope }}{{ end }}", ".Cluster.nope"),
    ("{{ if true }}{{ else if .Cluster.nope }}{{ end }}", ".Cluster.nope"),
    ("{{ with .Cluster.spec }}{{ .nope }}{{ end }}", ".nope"),
    ("{{ with .Cluster.spec }}{{ .networks.nope }}{{ end }}", ".networks.nope"),
    ("{{ with .Cluster.spec }}{{ with .networks }}{{ .nope }}{{ end }}{{ end }}", ".nope"),
    ("{{ with $x := .Cluster.spec }}{{ $x.nope }}{{ end }}", "$x.nope"),
    ("{{ range .Cluster.spec.pools }}{{ .nmae }}{{ end }}", ".nmae"),
    ("{{ range $n, $pool := .Cluster.spec.pools }}{{ $pool.nmae }}{{ end }}", "$pool.nmae"),
    ("{{ range $key, $one := .Cluster.spec.networks }}{{ $one.nope }}{{ end }}", "$one.nope"),
    ("{{ range .Cluster.spec.pools }}{{ $.Cluster.nope }}{{ end }}", "$.Cluster.nope"),
    ("{{ range .Cluster.spec.pools }}{{ else }}{{ .Cluster.nope }}{{ end }}", ".Cluster.nope"),
    ("{{ with .Cluster.spec }}{{ end }}{{ .Cluster.nope }}", ".Cluster.nope"),
    ('{{ index .Cluster "metadata" "nope" }}', 'index .Cluster "metadata" "nope"'),
    ('{{ (index .Cluster "metadata" `nope`) | quote }}', 'index .Cluster "metadata" `nope`'),
    ('{{ with index .Cluster.spec "networks" }}{{ .nope }}{{ end }}', ".nope"),
    ("{{ $spec := .Cluster.spec }}{{ $spec.nope }}", "$spec.nope"),
    ("{{ if eq .Cluster.metadata.name .Cluster.nope }}{{ end }}", ".Cluster.nope"),
    ('{{ define "d" }}{{ .Cluster.nope }}{{ end }}', ".Cluster.nope"),
]
THERE = [
    "{{ .Cluster.metadata.name }}",
    "{{ .Release.Name }}{{ .Values.nope }}",
    "{{/* .Cluster.nope */}}",
    '{{ ".Cluster.nope" }}',
    "{{ .Cluster.spec.paused }}",
    "{{ range .Cluster.spec.variables }}{{ .name }}{{ end }}",
    "{{ range .Cluster.spec.pools }}{{ .size }}{{ end }}",
    "{{ range .Cluster.spec.pools }}{{ .name }}{{ else }}{{ .Cluster.metadata.name }}{{ end }}",
    "{{ range $n := until 3 }}{{ $n }}{{ end }}",
    "{{ with .Cluster.spec }}{{ .paused }}{{ else }}{{ .Cluster.metadata.name }}{{ end }}",
    '{{ index .Cluster.metadata.labels "a/b" }}',
    "{{ index .Cluster.spec.pools 0 }}",
    '{{ (index .Cluster.spec.networks "pods").cidr }}',
    '{{ with dict "a" 1 }}{{ .a }}{{ end }}',
    "{{ .Cluster.spec.free.anything.at.all }}",
    "{{ with .Cluster.spec.free }}{{ .anything }}{{ end }}",
    "{{ $x := .Cluster.spec }}{{ $x = dict }}{{ $x.nope }}",
    '{{ block "b" .Cluster.spec }}{{ .nope }}{{ end }}',
    "{{ 1.5 }}{{ end }}{{ else }}{{ }}",
]


@pytest.mark.parametrize(("template", "path"), MISSING)
def test_field_that_no_sample_has_is_missing(template: str, path: str) -> None:
    assert [(each.path, each.line) for each in missing_fields(f"a\n{template}", [DATA])] == [(path, 2)]


@pytest.mark.parametrize("template", THERE)
def test_field_that_samples_have_is_not_missing(template: str) -> None:
    assert list(missing_fields(template, [DATA])) == []


def test_field_that_some_samples_lack_is_missing_in_those() -> None:
    assert list(missing_fields("{{ with .Cluster }}{{ .mine }}{{ end }}", [DATA, {"Cluster": {"mine": 1}}])) == []


@pytest.mark.parametrize(
    ("template", "optional"),
    [
        ("{{ .Cluster.nope }}", [False]),
        ("{{ .Cluster.nope | default 1 }}", [True]),
        ("{{ if .Cluster.nope }}{{ .Cluster.nope.x }}{{ end }}{{ .Cluster.nope }}", [True, True, False]),
        ("{{ if .Cluster.nope }}{{ .Cluster.nopes }}{{ end }}", [True, False]),
        ("{{ with .Cluster.nope }}{{ .x }}{{ end }}", [True]),
    ],
)
def test_field_that_the_template_handles_is_optional(template: str, optional: list[bool]) -> None:
    assert [each.optional for each in missing_fields(template, [DATA])] == optional
