"""Reconciles Clusters: adopts the objects that a Cluster refers to, mirrors their status, deletes them in order."""
