"""Values templates of HelmChartProxies; the results were measured with Cluster API Addon Provider Helm."""

from __future__ import annotations

from typing import Any

import pytest

from shared.charts import ValuesError
from shared.helm_proxies import values
from shared.helm_proxies.construction import Rendered
from shared.kube import Object

CLUSTER: Object = {
    "metadata": {"name": "test-cluster", "namespace": "n"},
    "spec": {
        "clusterNetwork": {
            "apiServerPort": 6443,
            "serviceDomain": "cluster.local",
            "pods": {"cidrBlocks": ["10.0.0.0/16", "20.0.0.0/16"]},
        },
        "topology": {"classRef": {"name": "quick"}},
    },
    "large": 12345678,
}
ROOTS: dict[str, Object] = {"ControlPlane": {"metadata": {"name": "cp"}}}


def proxy(template: str = "", **spec: Any) -> Object:
    return {"spec": {"chartName": "test-chart-name", "valuesTemplate": template, **spec}}


def rendered(template: str) -> str:
    return values.render(proxy(template), CLUSTER, ROOTS).values


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("a: 1  # as it is\n\n", "a: 1  # as it is\n\n"),
        ("a: {{ .Cluster.spec.clusterNetwork.apiServerPort }}\n", "a: 6443\n"),
        ("a: {{ .Cluster.large }}", "a: 12345678"),
        ("a: {{ 1e7 }}", "a: 1e+07"),
        ('a: {{ .Cluster.spec.clusterNetwork.pods.cidrBlocks | join "," }}', "a: 10.0.0.0/16,20.0.0.0/16"),
        ("a: {{ index .Cluster.spec.clusterNetwork.pods.cidrBlocks 0 }}", "a: 10.0.0.0/16"),
        (
            "a:{{ range .Cluster.spec.clusterNetwork.pods.cidrBlocks }}\n- {{ . }}{{ end }}",
            "a:\n- 10.0.0.0/16\n- 20.0.0.0/16",
        ),
        ("a: {{ .ControlPlane.metadata.name }}", "a: cp"),
        ("a: {{ .Cluster.spec.topology.classRef.name }}", "a: quick"),
        ("a: {{ .Cluster.missing }}", "a: <no value>"),
        ("a: {{ .Cluster.missing.deeper }}", "a: <no value>"),
        ("a: {{ .InfraCluster.metadata.name }}", "a: <no value>"),
        ("a: [{{ range .Cluster.missing }}{{ . }}{{ end }}]", "a: []"),
        ('a: {{ "ü" }}', "a: ü"),
        ("{{- if .Cluster.missing }}a: 1{{ end -}}\n", ""),
    ],
)
def test_output_is_that_of_the_original_controller(template: str, text: str) -> None:
    assert rendered(template) == text


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("a: {{ .Cluster.invalid-path }}", "bad character U+002D '-'"),
        ("a: {{ .Cluster.metadata.name.x }}", "can't evaluate field x in type interface {}"),
        ("a: {{ index .Cluster.missing 0 }}", "error calling index: index of untyped nil"),
        ("a: {{ nope }}", 'function "nope" not defined'),
        ('a: {{ env "HOME" }}', 'function "env" not defined'),
        ('a: {{ expandenv "$HOME" }}', 'function "expandenv" not defined'),
        ('a: {{ getHostByName "localhost" }}', 'function "getHostByName" not defined'),
        ("- a", "not a mapping"),
        ("a: [", "not YAML"),
        ("a: {{ now }}", "differs each time"),
        ("a: {{ randAlphaNum 10 }}", "differs each time"),
        ("a: {{ uuidv4 }}", "differs each time"),
        ('a: {{ (genCA "x" 1).Cert | quote }}', "differs each time"),
    ],
)
def test_failing_template_names_chart_and_cluster(template: str, words: str) -> None:
    with pytest.raises(ValuesError) as caught:
        rendered(template)
    assert words in str(caught.value)
    assert "test-chart-name-test-cluster" in str(caught.value)


def test_version_and_names_of_sources_may_be_templates() -> None:
    spec = {
        "version": '{{ if eq .Cluster.spec.topology.classRef.name "quick" }}1.x{{ else }}2.x{{ end }}',
        "valuesFrom": [
            {"kind": "ConfigMap", "name": "all"},
            {"kind": "Secret", "name": "{{ .Cluster.metadata.name }}-values"},
        ],
    }
    found = values.render(proxy(**spec), CLUSTER, {})
    assert found == Rendered("", "1.x", ("all", "test-cluster-values"))


def test_names_without_a_value_and_long_values_are_refused() -> None:
    with pytest.raises(ValuesError, match=r"spec\.version refers to a value that does not exist"):
        values.render(proxy(version="{{ .Cluster.missing }}"), CLUSTER, {})
    with pytest.raises(ValuesError, match=r"valuesFrom\[0\] has more than 253"):
        values.render(proxy(valuesFrom=[{"name": "a" * 254}]), CLUSTER, {})
    with pytest.raises(ValuesError, match="more than 524288 characters"):
        rendered("a: " + "b" * 2**19)


def test_other_roots_are_needed_only_where_a_template_names_them() -> None:
    assert values.reads(proxy("{{ .ControlPlane.spec }}"), values.CONTROL_PLANE)
    assert values.reads(proxy(version="{{ .InfraCluster.spec.version }}"), values.INFRA_CLUSTER)
    assert not values.reads(proxy("{{ .Cluster.spec.controlPlaneRef.name }}"), values.CONTROL_PLANE)
