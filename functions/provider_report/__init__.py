"""Whether an installed provider works: its workloads run, its webhooks can answer, its kinds are served."""
