"""Components moved into the namespace of their provider. NF numbers are those of the acceptance list."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from shared.components.errors import ComponentsError
from shared.components.objects import add_labels, move_to_namespace, parse, sort_for_install
from shared.kube import Object

INJECT = "cert-manager.io/inject-ca-from"


def made(kind: str, name: str = "it", api: str = "v1", **fields: Any) -> Object:
    """`namespace` and `annotations` are of its metadata."""
    metadata = {field: fields.pop(field) for field in ("namespace", "annotations") if field in fields}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}, **fields}


def moved(*objects: Object) -> list[Object]:
    before = deepcopy(objects)
    result = move_to_namespace(objects, "to")
    assert objects == before, "changes what it is given"
    return result


# -- documents -----------------------------------------------------------------------------------------------------


def test_objects_keep_the_order_of_the_documents() -> None:
    text = "---\n---\n# nothing\n---\nkind: B\napiVersion: v1\nmetadata: {name: b}\n---\nnull\n---\n" + (
        "{apiVersion: a/v1, kind: A, metadata: {name: a, labels: null}, version: 1.10, on: 2026-01-01}\n...\n"
    )
    assert parse(text) == [
        made("B", "b"),
        {
            "apiVersion": "a/v1",
            "kind": "A",
            "metadata": {"name": "a", "labels": None},
            "version": 1.1,
            "true": "2026-01-01",
        },
    ]


@pytest.mark.parametrize("text", ["", "---\n", "# nothing\n---\nnull\n"])
def test_empty_documents_give_no_objects(text: str) -> None:
    assert parse(text) == []


OBJECT = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(OBJECT + "---\nhello", "document 2 is a str, not an object", id="a word"),
        pytest.param("- a", "document 1 is a list, not an object", id="a list"),
        pytest.param("{}", "document 1: object has no apiVersion", id="empty"),
        pytest.param(OBJECT.replace("v1", "7"), "document 1: A has no apiVersion", id="apiVersion"),
        pytest.param(OBJECT.replace("A", "[]"), "document 1: object has no kind", id="kind"),
        pytest.param(OBJECT.replace("{name: a}", "a"), "document 1: A has no metadata.name", id="metadata"),
        pytest.param("apiVersion: v1\nkind: List\nitems: []", "List has no metadata.name", id="a List"),
        pytest.param(
            OBJECT.replace("}", ", labels: [x]}"), "document 1: A a has an invalid metadata.labels", id="labels"
        ),
        pytest.param(
            OBJECT.replace("}", ", annotations: x}"), "A a has an invalid metadata.annotations", id="annotations"
        ),
        pytest.param(OBJECT.replace("}", ", namespace: {}}"), "A a has an invalid metadata.namespace", id="namespace"),
        pytest.param(
            OBJECT + "---\na: {\n", "document 2 is not YAML .after substitution of variables.: .*line 6", id="no YAML"
        ),
        pytest.param("a: &a !!python/object/apply:os.system [x]", "document 1 is not YAML", id="tags"),
        pytest.param("[" * 100_000, "not YAML .*: .*levels deep", id="deep"),
        pytest.param("a: &a {b: *a}", "not YAML .*: .*contains itself", id="contains itself"),
        pytest.param(
            "a: &a [x]\nb: &b [" + "*a," * 99 + "]\nc: &c [" + "*b," * 99 + "]\nd: [" + "*c," * 999 + "]",
            "not YAML .*: .*values",
            id="aliases of aliases",
        ),
        pytest.param((OBJECT + "---\n") * 4_001, "more than 4000 objects", id="too many"),
    ],
)
def test_document_that_is_no_object_is_refused(text: str, message: str) -> None:
    with pytest.raises(ComponentsError, match=message):
        parse(text)


# -- namespaces ----------------------------------------------------------------------------------------------------


def test_nf1_components_with_two_namespaces_are_refused() -> None:
    with pytest.raises(ComponentsError, match="no more than one resource with Kind Namespace"):
        moved(made("Namespace", "a"), made("Namespace", "b"))


def test_nf2_namespace_object_is_renamed() -> None:
    assert moved(made("Namespace", "from")) == [made("Namespace", "to")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(made("Pod", namespace="from"), made("Pod", namespace="to"), id="NF3"),
        pytest.param(made("Pod"), made("Pod", namespace="to"), id="NF3 without one"),
        pytest.param(made("ClusterRole"), made("ClusterRole"), id="NF4"),
        pytest.param(made("APIService"), made("APIService"), id="known to have none"),
        pytest.param(
            made("Foo", api="x.io/v1"), made("Foo", api="x.io/v1", namespace="to"), id="unknown kinds have one"
        ),
    ],
)
def test_nf3_nf4_namespaced_objects_move_and_cluster_scoped_objects_stay(before: Object, after: Object) -> None:
    assert moved(before) == [after]


def crd(kind: str, scope: str, group: str = "x.io") -> Object:
    return made(
        "CustomResourceDefinition",
        f"{kind.lower()}s.{group}",
        "apiextensions.k8s.io/v1",
        spec={"group": group, "scope": scope, "names": {"kind": kind}},
    )


@pytest.mark.parametrize(
    ("scope", "kind", "api", "namespaced"),
    [
        ("Cluster", "Foo", "x.io/v2", False),
        ("Namespaced", "Foo", "x.io/v1", True),
        ("Namespaced", "Node", "x.io/v1", True),
        ("Cluster", "ConfigMap", "v1", True),
        ("Cluster", "Foo", "y.io/v1", True),
    ],
    ids=str,
)
def test_crd_among_the_objects_decides_the_scope_of_its_kind(scope: str, kind: str, api: str, namespaced: bool) -> None:
    *_, result = moved(crd(kind, scope), made(kind, api=api, namespace="from"))
    assert result["metadata"].get("namespace") == ("to" if namespaced else "from")


@pytest.mark.parametrize("spec", [None, [], {"names": 7}, {"conversion": {"webhook": {"clientConfig": "x"}}}], ids=str)
def test_malformed_crd_is_left_to_the_api_server(spec: object) -> None:
    obj = made("CustomResourceDefinition", api="apiextensions.k8s.io/v1", spec=spec)
    assert moved(obj) == [obj]


def test_last_of_two_objects_with_one_identity_counts() -> None:
    first, other, last = made("Pod", namespace="a", spec=1), made("Pod", "other"), made("Pod", namespace="b", spec=2)
    assert moved(first, other, last) == [made("Pod", namespace="to", spec=2), made("Pod", "other", namespace="to")]


# -- what refers to a namespace ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ClusterRoleBinding", "RoleBinding"])
@pytest.mark.parametrize(
    ("subjects", "after"),
    [
        ([{"name": "a", "namespace": "from"}, {"name": "u"}], [{"name": "a", "namespace": "to"}, {"name": "u"}]),
        (None, None),
        (7, 7),
        (["a", None], ["a", None]),
    ],
    ids=str,
)
def test_namespaces_of_role_binding_subjects_are_replaced(kind: str, subjects: object, after: object) -> None:
    (result,) = moved(made(kind, api="rbac.authorization.k8s.io/v1", subjects=subjects))
    assert result["subjects"] == after


def service(namespace: str) -> Object:
    return {"service": {"name": "s", "namespace": namespace, "port": 443}}


def webhooks(kind: str, version: str, namespace: str, inject: str) -> Object:
    api = f"admissionregistration.k8s.io/{version}"
    hooks = [{"clientConfig": service(namespace)}, {"clientConfig": {"url": "https://x"}}, {"name": "odd"}, "odd"]
    return made(kind, api=api, webhooks=hooks, annotations={INJECT: inject, "a": "b"})


def conversion(version: str, namespace: str, inject: str) -> Object:
    client = service(namespace)
    hook = {"webhookClientConfig": client} if version == "v1beta1" else {"webhook": {"clientConfig": client}}
    api, spec = f"apiextensions.k8s.io/{version}", {"conversion": {"strategy": "Webhook", **hook}}
    return made("CustomResourceDefinition", api=api, spec=spec, annotations={INJECT: inject})


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_nf5_services_of_webhooks_and_conversions_move(version: str) -> None:
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        assert moved(webhooks(kind, version, "from", "from/c")) == [webhooks(kind, version, "to", "to/c")]
    assert moved(conversion(version, "from", "from/c")) == [conversion(version, "to", "to/c")]


def test_nf5_service_without_namespace_gets_one() -> None:
    hooks = webhooks("ValidatingWebhookConfiguration", "v1", "to", "to/c")
    bare = deepcopy(hooks)
    del bare["webhooks"][0]["clientConfig"]["service"]["namespace"]
    assert moved(bare) == [hooks]


@pytest.mark.parametrize(
    "obj",
    [
        webhooks("ValidatingWebhookConfiguration", "v1beta2", "from", "from/c"),
        webhooks("MutatingWebhookConfiguration", "v1alpha1", "from", "from/c"),
        conversion("v1beta2", "from", "from/c"),
    ],
    ids=lambda obj: obj["kind"],
)
def test_nf5_webhook_of_unsupported_version_is_refused(obj: Object) -> None:
    with pytest.raises(ComponentsError, match=f"{obj['kind']} it has apiVersion .*supported are v1 and v1beta1"):
        moved(obj)


@pytest.mark.parametrize("value", ["c", "", "a/b/c"])
def test_nf5_invalid_injection_annotation_is_refused(value: str) -> None:
    for obj in (webhooks("MutatingWebhookConfiguration", "v1", "from", value), conversion("v1", "from", value)):
        with pytest.raises(ComponentsError, match=f"{obj['kind']} it: annotation {INJECT} is '{value}'"):
            moved(obj)


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("webhook.from.svc", "webhook.to.svc"),
        ("webhook.from.svc.cluster.local", "webhook.to.svc.cluster.local"),
        ("webhook.elsewhere.svc", "webhook.elsewhere.svc"),
        ("a.from.b.from.c", "a.to.b.from.c"),
        ("from.svc", "from.svc"),
        ("webhook.from", "webhook.from"),
    ],
)
def test_nf6_dns_names_of_certificates_get_the_namespace(name: str, after: str) -> None:
    def certificate(namespace: str, name: str) -> Object:
        return made("Certificate", api="cert-manager.io/v1", namespace=namespace, spec={"dnsNames": [name]})

    namespace = made("Namespace", "another")
    assert moved(namespace, certificate("from", name))[1] == certificate("to", after)


@pytest.mark.parametrize("spec", [None, {"dnsNames": "x"}, {"dnsNames": None}], ids=str)
def test_nf6_malformed_certificates_are_unchanged(spec: object) -> None:
    (result,) = moved(made("Certificate", api="cert-manager.io/v1", namespace="from", spec=spec))
    assert result["spec"] == spec


# -- labels and order ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [None, {}, {"a": "b"}, {"a": "b", "cluster.x-k8s.io/provider": "other"}], ids=str)
def test_nf7_all_objects_get_the_labels_of_clusterctl(labels: dict[str, str] | None) -> None:
    obj = made("Pod")
    obj["metadata"]["labels"] = labels
    (result,) = add_labels([obj], "infrastructure-x")
    assert obj["metadata"]["labels"] is labels
    assert result["metadata"]["labels"] == {
        **(labels or {}),
        "clusterctl.cluster.x-k8s.io": "",
        "cluster.x-k8s.io/provider": "infrastructure-x",
    }


def test_namespace_then_issuers_then_certificates_come_first() -> None:
    objects = [
        made("Pod", "b"),
        made("Certificate", "c", "cert-manager.io/v1"),
        made("Pod", "a"),
        made("Issuer", "i", "cert-manager.io/v1"),
        made("Namespace", "n"),
        made("Certificate", "d", "other.io/v1"),
    ]
    assert [obj["metadata"]["name"] for obj in sort_for_install(objects)] == ["n", "i", "c", "b", "a", "d"]


@pytest.mark.parametrize("name", ["a/b", "-a", "a..b", "A", "a" * 254, 5, ["a"]], ids=lambda name: str(name)[:9])
def test_certificate_with_an_invalid_secret_name_is_refused_without_quoting_it(name: object) -> None:
    certificate = made("Certificate", api="cert-manager.io/v1", spec={"secretName": name})
    with pytest.raises(ComponentsError, match=r"Certificate \S+: spec\.secretName is not a valid name$"):
        move_to_namespace([certificate], "ns")
    other = made("Certificate", api="example.com/v1", spec={"secretName": name})
    assert move_to_namespace([other], "ns")[0]["spec"] == {"secretName": name}
