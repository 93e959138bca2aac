"""The common code of `helm_chart_proxy` and `helm_release_proxy`: any Helm chart in workload clusters."""
