"""`describe cluster`: everything there is to know about one cluster, from what the management cluster has."""
