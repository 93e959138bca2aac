"""CloudEvent in, four steps, HTTP out."""

from .answer import Answer, done
from .function import Decision, Function
from .notice import Notice, record

__all__ = ["Answer", "Decision", "Function", "Notice", "done", "record"]
