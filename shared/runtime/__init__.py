"""CloudEvent in, four steps, HTTP out."""

from .answer import Answer, done
from .function import Decision, Function, Notice, changes

__all__ = ["Answer", "Decision", "Function", "Notice", "changes", "done"]
