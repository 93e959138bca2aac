"""Runs functions: a CloudEvent in, observe, decide, act and report, an HTTP response out."""

from .answer import Answer, done
from .decision import Decision
from .function import Function, Request
from .recorder import KubernetesEvent, record_event

__all__ = ["Answer", "Decision", "Function", "KubernetesEvent", "Request", "done", "record_event"]
