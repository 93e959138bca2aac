"""KINDCluster: a small cluster for development, from a runtime behind a narrow port."""
