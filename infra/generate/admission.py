"""Generates the admission policy for the functions' writes of Secrets.

Functions may write Secrets in all namespaces: kubeconfigs, CAs, manifests. RBAC cannot distinguish these from a Secret
that the control plane fills with the token of another ServiceAccount, or from the settings of the installation. Writing
either would give a function, and an attacker who takes it over, the rights of the provider functions.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.kube.resources import Object
from shared.settings import NAMESPACE

from . import workloads
from .files import Document

NAME = "capi-functions-secrets"
SINCE = "1.30.0-0"
"""The first version of Kubernetes with such policies."""

UNRESTRICTED = (workloads.SINGLE_PROVIDERS, "provider-install")
"""The accounts that install providers, whose components contain any Secrets."""

_API = "admissionregistration.k8s.io/v1"
_ACCOUNTS = f"system:serviceaccount:{NAMESPACE}:"
_WHY = """
Functions write Secrets in all namespaces. This keeps them from Secrets that get the token of another account, and from
the settings of the installation.
"""


def documents() -> Iterable[Document]:
    """Yields the policy and its binding."""
    metadata = {"name": NAME, "labels": dict([workloads.PART_OF])}
    binding = {"policyName": NAME, "validationActions": ["Deny"]}
    yield _WHY, {"apiVersion": _API, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": _policy()}
    yield "", {"apiVersion": _API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": binding}


def _policy() -> Object:
    exempt = ", ".join(f"'{_ACCOUNTS}{account}'" for account in UNRESTRICTED)
    user = "request.userInfo.username"
    rule = {"apiGroups": [""], "apiVersions": ["*"], "resources": ["secrets"], "operations": ["CREATE", "UPDATE"]}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {
                "name": "functions",
                "expression": f"{user}.startsWith('{_ACCOUNTS}') && !({user} in [{exempt}])",
            }
        ],
        "validations": [
            {
                "expression": "!has(object.type) || object.type != 'kubernetes.io/service-account-token'",
                "message": "functions must not write Secrets for the token of a ServiceAccount",
            },
            {
                "expression": f"request.namespace != {user}.split(':')[2]",
                "message": "functions must not write Secrets in the namespace of their installation",
            },
        ],
    }
