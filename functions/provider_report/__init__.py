"""Reports whether an installed provider works: workloads run, webhooks have endpoints, kinds are served."""
