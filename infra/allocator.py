"""Environment variables that make the C library of function processes return freed memory to the system.

By default each thread allocates from a heap of its own, and after a large block was freed, the library keeps more
memory. With the variables, a rollout to a hundred clusters leaves 5 to 7 MiB less.
"""

VARIABLES = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}
