"""CustomResourceDefinitions: one is of use only once the server says so."""

from __future__ import annotations

import time

from .client import Client
from .resources import Key, Object, Resource, dig

CRD = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)


def await_established(client: Client, name: str, *, within: float = 30.0) -> Object:
    """The CRD `name`, once the server serves it. Raises `TimeoutError` after `within` seconds, or at once with
    the server's reason where the names it wants are taken.
    """
    deadline = time.monotonic() + within
    pause = 0.03
    while time.monotonic() < deadline:
        time.sleep(pause)
        crd = client.get(CRD, Key("", name))
        for condition in dig(crd, "status.conditions", []):
            if condition["type"] == "Established" and condition["status"] == "True":
                return crd
            if condition["type"] == "NamesAccepted" and condition["status"] == "False":
                raise TimeoutError(f"CRD {name} is not accepted: {condition.get('message')}")
        pause = min(pause * 2, 0.5)
    raise TimeoutError(f"CRD {name} was not established within {within:g} s")
