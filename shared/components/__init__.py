"""Components of Cluster API providers: from the YAML of a release to the objects to apply, by clusterctl's rules."""
