"""Creates and renews the admin kubeconfig of a workload cluster, and generates the certificates that it requests."""
