"""CloudEvent in, four steps, HTTP out."""

from ..effects import changes
from .answer import Answer, done
from .function import Decision, Function
from .notice import Notice, record

__all__ = ["Answer", "Decision", "Function", "Notice", "changes", "done", "record"]
