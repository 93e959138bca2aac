"""The settings of the object store of functions that run in a cluster."""

from __future__ import annotations

from collections.abc import Mapping

from shared.api.resources import CONFIG_MAP, SECRET
from shared.buckets import KEYS, NAMING, url_in
from shared.dead_letters import DeadLetters
from shared.kube import Client, Key, dig
from shared.providers.inputs import decode_secret
from shared.settings import STORAGE
from shared.storage import ObjectStore

from .failure import Failure

_IN_POD = "`kubectl exec deployment/NAME -- capi-functions dead-letter list` reads the letters in a pod"


def store_settings(client: Client, namespace: str) -> dict[str, str]:
    """Returns the settings of the store, from the ConfigMap and the Secret that the pods of functions read.

    Raises `Failure` if nothing in the namespace names a store, or if the store is a folder of a pod, or `ApiError`.
    """
    key = Key(namespace, STORAGE.name)
    data: Mapping[str, str] = dig(client.find(CONFIG_MAP, key) or {}, "data", {})
    found = {**data, **decode_secret(client.find(SECRET, key) or {})}
    settings = {name: found[name] for name, _ in STORAGE.keys if found.get(name)}
    if not any(settings.get(name) for name in NAMING):
        raise Failure(f"neither ConfigMap nor Secret {key} names an object store; {_IN_POD}")
    if url_in(settings).startswith("file:"):
        raise Failure(f"the object store in {key} is a folder of a pod; {_IN_POD}")
    return settings


def stored_letters(client: Client, namespace: str) -> DeadLetters:
    """Returns the dead letters in the store, which is opened with the keys in ConfigMap and Secret and no others.

    Raises as `store_settings`, also `Failure` without keys: the functions then have an identity that others lack.
    """
    settings = store_settings(client, namespace)
    url = url_in(settings)
    if not all(settings.get(name) for name in KEYS.get(url.partition(":")[0], ())):
        raise Failure(f"{Key(namespace, STORAGE.name)} has no keys of the object store; {_IN_POD}")
    return DeadLetters(ObjectStore(url, settings))
