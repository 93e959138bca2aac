"""Makes a HelmReleaseProxy for each Cluster that a HelmChartProxy selects."""
