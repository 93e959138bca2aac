"""The admin kubeconfig of a workload cluster, minted from the cluster's CA."""
