"""Access to Kubernetes API servers: names, errors, a thin client, credentials, discovery."""

from .client import Client
from .errors import ApiError, Conflict, Gone, NotFound, Unauthorized, Unavailable
from .resources import Key, Object, Resource, deleting, dig, has_finalizer, key_of, owned_by, owner_reference, owners

__all__ = [
    "ApiError",
    "Client",
    "Conflict",
    "Gone",
    "Key",
    "NotFound",
    "Object",
    "Resource",
    "Unauthorized",
    "Unavailable",
    "deleting",
    "dig",
    "has_finalizer",
    "key_of",
    "owned_by",
    "owner_reference",
    "owners",
]
