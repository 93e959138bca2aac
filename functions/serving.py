"""How functions are served: by gunicorn, which reads this module as its configuration.

The application comes from functions-framework. Its own command serves it in the same way, but takes 13 MiB more,
because it also loads the application in gunicorn's parent process, which only watches the worker.
"""

from __future__ import annotations

import gc
import os

from shared.private_memory import hide_in_pods

# gunicorn's settings; `bind`, and certificates, are arguments of the command.
workers = int(os.environ.get("WORKERS", "1"))
threads = int(os.environ.get("THREADS", "8"))
worker_class = "functions.worker.Worker"  # gunicorn's gthread, which does not let slow clients hold threads
worker_connections = 512
keepalive = 2  # seconds that a connection may be idle between two requests
timeout = 0  # seconds without a sign of life of a worker, because functions have deadlines of their own
graceful_timeout = 25  # seconds from SIGTERM to the end of deliveries: Kubernetes kills a pod after 30
control_socket_disable = True  # it imports asyncio; nothing uses it
loglevel = "error"

hide_in_pods()  # also for the process that answers, a child of this process


def command(function: str, *options: str) -> list[str]:
    """Returns the command that serves a function, or with "" all of them; `options` are gunicorn's."""
    application = f'functions_framework:create_app("{function or "functions"}", "functions/main.py")'
    return ["gunicorn", f"--config=python:{__name__}", *options, application]


def pre_fork(_server: object, _worker: object) -> None:
    """Keeps the garbage collector of the worker from writing to memory that it shares with its parent: 2 MiB."""
    gc.freeze()


def post_fork(_server: object, _worker: object) -> None:
    """Pauses the garbage collector while the worker imports its functions: a twelfth of the CPU time of its start."""
    gc.disable()


def post_worker_init(_worker: object) -> None:
    """Resumes the garbage collector, which then leaves out all that the imports have created."""
    gc.freeze()
    gc.enable()
