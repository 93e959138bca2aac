"""Runs functions: a CloudEvent in, the four steps of a `Function` or a `Task`, an HTTP response out."""

from .answer import Answer, done
from .decision import Decision, reconciled_by
from .function import Function, Request
from .recorder import KubernetesEvent, record_event
from .task import Task

__all__ = [
    "Answer",
    "Decision",
    "Function",
    "KubernetesEvent",
    "Request",
    "Task",
    "done",
    "reconciled_by",
    "record_event",
]
