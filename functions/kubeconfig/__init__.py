"""Creates and renews the Secret with the admin kubeconfig of a workload cluster, and the certificates that it requests."""
