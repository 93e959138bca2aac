"""Small charts, each with what published charts have, on the journey of `make test-charts`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shared.api.resources import CONFIG_MAP
from shared.kube import Key
from tests.support.api_proxy import Proxy
from tests.support.chart_journey import Journey, Version
from tests.support.helm_releases import MAP, HelmWorld, packed

NAMED = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n"
CHARTS: Mapping[str, tuple[str, str]] = {
    "large integers": ("size: 10485760\n", NAMED.format("numbers") + 'data: {size: "{{ .Values.size }}"}\n'),
    "release in names": ("", NAMED.format('{{ printf "%s-x" .Release.Name | trunc 63 }}')),
    "random values": ("", NAMED.format("random") + "data: {r: {{ randAlphaNum 9 | quote }}}\n"),
    "another namespace": ("", NAMED.format("other") + "  namespace: {{ .Release.Namespace }}\n"),
    "a kept object": ("", NAMED.format("kept") + "  annotations: {helm.sh/resource-policy: keep}\n"),
    "an object of upgrades": ("", "{{- if .Release.IsUpgrade }}\n" + NAMED.format("later") + "{{- end }}\n"),
}


@pytest.mark.parametrize("what", CHARTS)
def test_journey(helm_world: HelmWorld, proxy: Proxy, helm_program_set: None, what: str) -> None:
    world, (values, template) = helm_world, CHARTS[what]
    world.kubeconfig = proxy.kubeconfig
    world.secret()
    versions = []
    for version in ("1.0.0", "2.0.0"):
        templates = {"a.yaml": MAP.format("a") + f"immutable: false\n# {version}\n", "b.yaml": template}
        world.chart(version, templates)
        archive = world.folder / f"web-{version}.tgz"
        archive.write_bytes(packed(version, templates))
        versions.append(Version(version, archive, values + f"x: {version}\n"))
    journey = Journey(world, "web", lambda: len(proxy.writes()), "a" * 40 + "-web")
    report = journey.run(*versions)
    assert report.problems == []
    assert report.writes == [0, 0, 0]
    assert world.client.find(CONFIG_MAP, Key(world.releases, "a")) is None


@pytest.fixture
def helm_program_set(helm_world: HelmWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM", str(helm_world.helm_program))
