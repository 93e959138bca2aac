"""Access to Kubernetes API servers: resources and keys, errors, a thin client, credentials, discovery."""

from .client import MANAGER, Client, is_ours
from .errors import ApiError, Conflict, Gone, NotFound, NotServed, Unauthorized, Unavailable, is_rejection
from .resources import (
    Key,
    Object,
    Resource,
    deleting,
    dig,
    has_finalizer,
    key_of,
    owned_by,
    owner_reference,
    owners,
    with_owner,
)

__all__ = [
    "MANAGER",
    "ApiError",
    "Client",
    "Conflict",
    "Gone",
    "Key",
    "NotFound",
    "NotServed",
    "Object",
    "Resource",
    "Unauthorized",
    "Unavailable",
    "deleting",
    "dig",
    "has_finalizer",
    "is_ours",
    "is_rejection",
    "key_of",
    "owned_by",
    "owner_reference",
    "owners",
    "with_owner",
]
