"""Generated values are found by rendering a release twice, and kept until the version of the addons changes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shared import charts
from shared.addons import chart_objects, first_values
from shared.addons.chart_objects import AddonAssets
from shared.addons.first_values import FirstValues, GeneratedField, RenderedAddons
from shared.charts import Capabilities
from shared.manifests import identity
from shared.releases.metadata import ReleaseMetadata
from shared.releases.naming import ReleaseName, StackVersion
from shared.releases.release import Release
from shared.sandbox import Limits
from tests.support.releases import archive

SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData:\n  password: {{ randAlphaNum 20 }}\n"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ .Values.replicas }}
  template:
    metadata:
      annotations: {checksum: {{ include (print $.Template.BasePath "/secret.yaml") . | sha256sum }}}
"""
CERTIFICATE = """
{{- $ca := genCA "ca" 365 }}
apiVersion: v1
kind: Secret
metadata: {name: tls}
stringData: {ca: {{ $ca.Cert | b64enc }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: bundle}
data: {ca: {{ $ca.Cert | b64enc }}}
{{- if .Values.more }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: more}
data: {ca: {{ $ca.Cert | b64enc }}}
{{- end }}
"""


def assets(
    version: int = 1, values: str = "replicas: 1\n", subchart: dict[str, str] | None = None, **files: str
) -> AddonAssets:
    packed = {"c/Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n", "c/values.yaml": values}
    packed |= {f"c/templates/{name}.yaml": text for name, text in files.items()}
    data = archive(packed)
    if subchart:
        inner = archive({"s/Chart.yaml": "apiVersion: v2\nname: s\nversion: 1.0.0\n", **subchart})
        data = charts.pack({**charts.inspect(data, "c"), "c/charts/s-1.0.0.tgz": inner})
    name = ReleaseName.parse(f"docker-ferrol-1-27-v{version}")
    return AddonAssets(
        Release(name, {}, ReleaseMetadata(StackVersion(version), "v1.27.3", StackVersion(version))), data
    )


def rendered(release: AddonAssets, record: FirstValues | None = None) -> RenderedAddons:
    return first_values.render(
        release,
        lambda one: [("", chart_objects.umbrella_objects(one, {}, Capabilities("v1.27.3")))],
        FirstValues() if record is None else record,
    )


def objects(result: RenderedAddons) -> dict[str, dict[str, Any]]:
    return {str(identity(obj)): obj for _, part in result.stages for obj in part}


def names(result: RenderedAddons) -> set[str]:
    return {str(each) for each in result.fields}


def test_release_that_generates_nothing_is_rendered_once() -> None:
    calls: list[AddonAssets] = []

    def renderer(one: AddonAssets) -> first_values.StageObjects:
        calls.append(one)
        return [("", chart_objects.umbrella_objects(one, {}, Capabilities("v1.27.3")))]

    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: now}\ndata: {values: keys, a: {{ .Values.now | quote }}}\n"
    )
    result = first_values.render(assets(a=text), renderer, FirstValues())
    assert (len(calls), result.fields, result.record.values) == (1, (), {})


def test_chart_traits_raise_if_a_limit_is_exceeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(charts.sandboxed, "LIMITS", Limits(cpu=60, wall=300.0, memory=1))
    with pytest.raises(charts.RenderError, match="needed more than 1 MiB of memory"):
        chart_objects.chart_traits(assets(large="#" * 50 * 2**20))


def test_unreadable_archive_has_default_traits() -> None:
    assert not chart_objects.chart_traits(replace(assets(), archive=b"no archive")).needs_cluster_facts


def test_generated_fields_are_named_and_keep_first_values() -> None:
    release = assets(secret=SECRET, deployment=DEPLOYMENT)
    first = rendered(release)
    checksum = "Deployment.apps web: spec.template.metadata.annotations.checksum"
    assert names(first) == {"Secret db: stringData.password", checksum}
    record = FirstValues.load(json.loads(json.dumps(first.record.dump())))
    assert objects(rendered(release, record)) == objects(first)
    assert objects(rendered(release)) != objects(first)


def test_another_release_generates_new_values() -> None:
    first = rendered(assets(1, secret=SECRET))
    assert objects(rendered(assets(2, secret=SECRET), first.record)) != objects(first)


def test_changed_settings_are_rendered_with_first_values() -> None:
    first = rendered(assets(secret=SECRET, deployment=DEPLOYMENT))
    second = rendered(assets(secret=SECRET, deployment=DEPLOYMENT, values="replicas: 3\n"), first.record)
    before, after = objects(first), objects(second)
    assert after["Secret db"] == before["Secret db"]
    assert after["Deployment.apps web"]["spec"]["replicas"] == 3
    # A checksum may be one of the settings that have changed.
    annotations = [one["Deployment.apps web"]["spec"]["template"]["metadata"]["annotations"] for one in (before, after)]
    assert annotations[0] != annotations[1]
    third = rendered(assets(secret=SECRET, deployment=DEPLOYMENT, values="replicas: 3\n"), second.record)
    assert objects(third) == after


def test_value_in_several_fields_stays_the_same_in_all() -> None:
    first = rendered(assets(tls=CERTIFICATE))
    second = objects(rendered(assets(tls=CERTIFICATE, values="more: true\n"), first.record))
    ca = objects(first)["Secret tls"]["stringData"]["ca"]
    assert [second[name]["data"]["ca"] for name in ("ConfigMap bundle", "ConfigMap more")] == [ca, ca]


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ("data: {a: {{ now | date `2006` | quote }}}", "ConfigMap a: data.a"),
        ("data: {a: {{ now | unixEpoch | quote }}}", "ConfigMap a: data.a"),
        ("data: {a: {{ uuidv4 }}}", "ConfigMap a: data.a"),
        ("data: { {{ randAlpha 9 }}: x}", "ConfigMap a: data"),
        ("list: [{{ range until (randInt 2 2000 | int) }}{a: b},{{ end }}]", "ConfigMap a: list"),
        ("list: [{a: {{ randAlpha 9 }}}]", "ConfigMap a: list[0].a"),
        ('data: {a: {{ tpl "{{ randAlpha 9 }}" . }}}', "ConfigMap a: data.a"),
        ("data: {a: {{ htpasswd `u` `p` | quote }}}", "ConfigMap a: data.a"),
    ],
)
def test_fields_that_differ_between_renderings_are_found(template: str, field: str) -> None:
    release = assets(a=f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n{template}\n")
    first = rendered(release)
    assert names(first) == {field}
    assert objects(rendered(release, first.record)) == objects(first)


def test_dates_in_packed_subcharts_are_found() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ now | date `2006-01-02` | quote }}}\n"
    assert names(rendered(assets(subchart={"s/templates/a.yaml": text}))) == {"ConfigMap a: data.a"}


def test_generated_names_are_kept() -> None:
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: 'job-{{ randAlpha 8 | lower }}'}\nspec: {}\n"
    release = assets(one=job, two=job)
    first = rendered(release)
    assert names(first) == {"Job.batch #1: metadata.name", "Job.batch #2: metadata.name"}
    assert objects(rendered(release, first.record)) == objects(first)


def test_value_that_is_looked_up_now_replaces_the_first_value() -> None:
    """Both renderings are equal, so the chart looks the value up."""
    first = rendered(assets(secret=SECRET))
    known = SECRET.replace("{{ randAlphaNum 20 }}", "{{/* randAlphaNum */}}live")
    second = rendered(assets(secret=known), first.record)
    assert objects(second)["Secret db"]["stringData"]["password"] == "live"
    assert second.fields == ()
    third = rendered(assets(secret=SECRET), second.record)
    assert objects(third) == objects(first)


def test_nested_generated_fields_are_replaced_once() -> None:
    release = assets(secret=SECRET)
    first = rendered(release)
    whole = GeneratedField("", "Secret db", ("stringData",))
    record = replace(first.record, values={**first.record.values, whole: {"password": "whole"}})
    assert objects(rendered(release, record)).keys() == {"Secret db"}


@pytest.mark.parametrize("data", [None, [], {"addons": "x"}, {"addons": "x", "values": 5, "steady": {}}])
def test_damaged_values_are_rejected(data: Any) -> None:
    with pytest.raises(ValueError, match="record"):
        FirstValues.load(data)


@pytest.mark.parametrize(
    ("text", "varies"),
    [
        ("a: {{ randAlphaNum 5 }}", True),
        ("a: {{- now | quote -}}", True),
        ("{{ $x := genCA\n`a` 5 }}", True),
        ("now: {{ .Values.now }}", False),
        ('a: {{ include "x.keys" . }}', False),
        ("randAlphaNum 5", False),
        ("{{ $now }}", False),
        ("{{" * 100_000, False),
    ],
)
def test_templates_that_may_vary_are_recognised(text: str, varies: bool) -> None:
    assert charts.varying.may_vary({"c/templates/a.yaml": text.encode()}) is varies


def test_second_rendering_changes_dates_in_templates_only() -> None:
    text = b'now {{ now | date "now" }} {{ `now` }} {{ .now }} now'
    changed = charts.varying.text_with_fixed_time(text)
    assert changed == b'now {{ (toDate "2006-01-02" "2001-02-03") | date "now" }} {{ `now` }} {{ .now }} now'
