"""What a HelmReleaseProxy asks for."""

from __future__ import annotations

from typing import Any

import pytest

from shared.helm_charts.request import ChartRequest, SecretKey, answer_chart, request_chart

SPEC: dict[str, Any] = {"repoURL": "https://charts.example.com", "chartName": "demo", "version": "1.2.3"}


def test_the_fields_of_a_spec() -> None:
    spec = SPEC | {
        "credentials": {"secret": {"name": "login"}, "key": ""},
        "tlsConfig": {"caSecret": {"name": "ca", "namespace": "b"}, "insecureSkipTLSVerify": True},
    }
    request = ChartRequest.from_spec(spec, "a")
    assert (request.repo_url, request.chart_name, request.version) == ("https://charts.example.com", "demo", "1.2.3")
    assert request.credentials == SecretKey("a", "login", "config.json")
    assert request.ca == SecretKey("b", "ca", "ca.crt")
    assert request.insecure


@pytest.mark.parametrize("spec", [{}, {"version": 1, "credentials": "x", "tlsConfig": []}, {"repoURL": None}])
def test_any_spec_is_a_request(spec: dict[str, Any]) -> None:
    assert ChartRequest.from_spec(spec, "a") == ChartRequest("", "", "", "a")


@pytest.mark.parametrize(
    ("more", "scope"),
    [
        ({}, "public"),
        ({"tlsConfig": {"insecureSkipTLSVerify": False}}, "public"),
        ({"tlsConfig": {"insecureSkipTLSVerify": True}}, "namespaces/a"),
        ({"tlsConfig": {"caSecret": {"name": "ca"}}}, "namespaces/a"),
        ({"credentials": {"secret": {"name": "login"}, "key": ""}}, "namespaces/a"),
    ],
)
def test_own_credentials_and_own_trust_are_private(more: dict[str, Any], scope: str) -> None:
    assert ChartRequest.from_spec(SPEC | more, "a").scope == scope


def test_equal_requests_have_one_id_in_all_namespaces() -> None:
    one, other = (ChartRequest.from_spec(SPEC, namespace) for namespace in ("a", "b"))
    assert one.id == other.id
    assert ChartRequest.from_spec(SPEC | {"version": "1"}, "a").id != one.id


def test_the_events_are_about_the_object() -> None:
    about = {
        "apiVersion": "addons.cluster.x-k8s.io/v1alpha1",
        "kind": "HelmReleaseProxy",
        "metadata": {"namespace": "a", "name": "b"},
        "spec": SPEC,
    }
    for event in (request_chart(about, source="/x"), answer_chart(about)):
        assert (event.namespace, event.name, event.subject, event.data) == ("a", "b", "demo", {})
