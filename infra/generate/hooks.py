"""Generates `infra/manifests/hooks`: a kustomization of `cluster_hooks` as a runtime extension of Cluster API.

Cluster API calls extensions over HTTPS only. gunicorn reads the certificate for each connection, so that a renewed one
needs no restart. cert-manager issues the certificate, and Cluster API reads the CA from the same Secret.
"""

from __future__ import annotations

from collections.abc import Iterable

from functions import serving
from functions.cluster_hooks.access import ACCESS
from shared.kube.resources import Object
from shared.settings import NAMESPACE

from . import network, rbac, workloads
from .files import Document, in_namespace, yaml_text
from .knative import kustomization_with_image

NAME = "cluster-hooks"
PORT = 9443
SECRET = "cluster-hooks-tls"  # noqa: S105 - a name
TLS = "/tls"

_CERTIFICATES = "cert-manager.io/v1"
_ISSUER = "A self-signed certificate. Cluster API trusts ca.crt in the Secret, also of another issuer."
_NETWORK = "Cluster API's core controller calls the hooks. If it is not in capi-system, change this in an overlay."
_EXTENSION = """
Needs Cluster API's feature gate RuntimeSDK. To restrict it to some namespaces, set spec.namespaceSelector in an
overlay.
"""


def files() -> dict[str, str]:
    """Returns content by file name."""
    name = f"{NAME}.yaml"
    return {name: yaml_text(documents()), "kustomization.yaml": yaml_text([("", kustomization_with_image([name]))])}


def command(certificates: str = TLS, bind: str = f"0.0.0.0:{PORT}") -> list[str]:
    """Returns the command that serves the hooks over HTTPS with `tls.crt` and `tls.key` of a folder."""
    files = (f"--certfile={certificates}/tls.crt", f"--keyfile={certificates}/tls.key")
    return serving.command("cluster_hooks", f"--bind={bind}", *files)


def documents() -> Iterable[Document]:
    """Yields the objects of the hooks."""
    role = f"capi-functions-{NAME}"
    yield "", rbac.service_account(NAME)
    yield "", rbac.cluster_role(role, rbac.function_rules(ACCESS))
    yield "", rbac.cluster_role_binding(role, NAME)
    yield "", _deployment()
    yield "", _service()
    yield _NETWORK, network.of_hooks(NAME, PORT)
    yield _ISSUER, _issuer()
    yield "", _certificate()
    yield _EXTENSION, _extension_config()


def _deployment() -> Object:
    deployment = workloads.deployment(ACCESS, NAME)
    template = deployment["spec"]["template"]
    [container] = template["spec"]["containers"]
    program, *arguments = command()
    container |= {
        "command": [program],
        "args": arguments,
        "ports": [{"name": "https", "containerPort": PORT}, *container["ports"][1:]],
        "readinessProbe": {"httpGet": {"path": "/", "port": "https", "scheme": "HTTPS"}, "periodSeconds": 5},
        "livenessProbe": workloads.liveness("https", "HTTPS"),
    }
    container["volumeMounts"].append({"name": "tls", "mountPath": TLS, "readOnly": True})
    # Makes the key readable for the group of the process.
    template["spec"]["securityContext"]["fsGroup"] = template["spec"]["securityContext"]["runAsGroup"]
    template["spec"]["volumes"].append({"name": "tls", "secret": {"secretName": SECRET, "defaultMode": 0o440}})
    return deployment


def _service() -> Object:
    service = workloads.service(NAME)
    service["spec"]["ports"] = [
        {"name": "https", "port": 443, "targetPort": "https"},
        workloads.metrics_port(workloads.METRICS_NAME),
    ]
    return service


def _issuer() -> Object:
    return in_namespace(_CERTIFICATES, "Issuer", NAME, {"selfSigned": {}})


def _certificate() -> Object:
    host = f"{NAME}.{NAMESPACE}.svc"
    spec = {
        "secretName": SECRET,
        "dnsNames": [host, f"{host}.cluster.local"],
        "issuerRef": {"kind": "Issuer", "name": NAME},
        "privateKey": {"algorithm": "ECDSA", "rotationPolicy": "Always"},
    }
    return in_namespace(_CERTIFICATES, "Certificate", NAME, spec)


def _extension_config() -> Object:
    return {
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2",
        "kind": "ExtensionConfig",
        "metadata": {
            "name": "capi-functions",
            "labels": dict([workloads.PART_OF]),
            "annotations": {"runtime.cluster.x-k8s.io/inject-ca-from-secret": f"{NAMESPACE}/{SECRET}"},
        },
        "spec": {"clientConfig": {"service": {"name": NAME, "namespace": NAMESPACE, "port": 443}}},
    }
