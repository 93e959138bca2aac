"""Creates the Secret with the admin kubeconfig of a workload cluster, signed by the cluster's CA."""
