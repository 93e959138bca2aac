"""Starts `release_prune` by an hourly timer."""

from __future__ import annotations

from shared import profiles
from shared.api.resources import HELM_RELEASE_PROXY
from shared.releases.garbage_collection import REFERRING_KINDS
from shared.settings import STORAGE
from shared.triggers import EVERY_HOUR, READ_CRDS, Rule, Triggers

TRIGGERS = Triggers(
    name="release_prune",
    profiles=profiles.ADDONS,
    subscriptions=(EVERY_HOUR,),
    rules=(
        *(Rule(kind.group, (kind.plural,), ("list",)) for kind in (*REFERRING_KINDS, HELM_RELEASE_PROXY)),
        READ_CRDS,
    ),
    settings=(STORAGE,),
)
