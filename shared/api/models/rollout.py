"""The strategy and the status of a rollout over many Clusters, and the conditions of the kinds that have one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema
from pydantic.config import JsonDict

from .custom_resource import Int64, Model, Timestamp, rule
from .label_selector import LabelSelector

_AMOUNT: JsonDict = {"x-kubernetes-int-or-string": True, "minimum": 1, "pattern": "^([1-9][0-9]?|100)%$"}
_UP_TO_A_WEEK = "duration(self) > duration('0s') && duration(self) <= duration('168h')"
_UP_TO_A_WEEK_MESSAGE = "duration must be a duration of at most 168h, such as 4h"
MaxUnavailable = Annotated[int | str, WithJsonSchema(_AMOUNT)]
"""A number from 1 on, or a percentage from 1% to 100%."""


class RolloutPartition(Model):
    """Clusters that are changed after all Clusters of the partitions before them are up to date and ready."""

    name: str = Field(min_length=1, max_length=63)
    cluster_selector: LabelSelector
    """Selects from the Clusters of the rollout. A Cluster belongs to the first partition that selects it."""
    max_unavailable: MaxUnavailable | None = None
    """How many Clusters of the partition may be unavailable at once (default: as in the strategy)."""


class RolloutWindow(Model):
    """A time in which Clusters may be changed."""

    schedule: str = Field(min_length=9, max_length=200)
    """When the window begins, in the format of cron: minute, hour, day, month, weekday, as in `0 22 * * 1-5`."""
    duration: str = Field(max_length=32, json_schema_extra=rule(_UP_TO_A_WEEK, _UP_TO_A_WEEK_MESSAGE))
    """How long the window lasts, up to `168h`."""
    time_zone: str | None = Field(None, min_length=1, max_length=64)
    """The time zone of the schedule, as `Europe/Berlin` (default: UTC)."""


class RolloutStrategy(Model):
    """How fast, and in which order, the Clusters get a change."""

    max_unavailable: MaxUnavailable | None = None
    """How many Clusters of a partition may be unavailable at once: a number, or a percentage, rounded up (default:
    all). Clusters whose change fails stay unavailable, so the rollout stops once they are as many."""
    partitions: list[RolloutPartition] | None = Field(
        None, max_length=32, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    )
    """Waves, in their order. Clusters that no partition selects come last."""
    max_consecutive_failures: int | None = Field(None, ge=1, le=10000)
    """Stops the rollout once so many Clusters have failed with the change that follow each other in its order."""
    windows: list[RolloutWindow] | None = Field(None, max_length=16)
    """Times in which Clusters may be changed (default: always). A change that has begun continues after its window."""
    paused: bool | None = None
    """Changes no Cluster. Clusters that leave the selection of a HelmChartProxy still lose its release."""


class Condition(Model):
    """A condition of metav1."""

    type: str = Field(max_length=316)
    status: Literal["True", "False", "Unknown"]
    observed_generation: Int64 | None = Field(None, ge=0)
    last_transition_time: Timestamp
    reason: str = Field(min_length=1, max_length=1024)
    message: str = Field(max_length=32768)


class PartitionStatus(Model):
    """The state of one partition of a rollout."""

    name: str
    count: int
    """How many Clusters belong to it."""
    max_unavailable: int
    """How many of them may be unavailable at once."""
    up_to_date: int
    """How many have the present spec."""
    unavailable: int
    """How many are not ready."""


class RolloutStatus(Model):
    """The state of a rollout with a strategy or dependencies."""

    partitions: list[PartitionStatus]
    waiting: int
    """How many Clusters still have to be changed."""
