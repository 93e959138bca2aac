"""Runs one real node, kubelet with containerd, for a control plane of this project. It needs no image registry.

The node is a set of namespaces (mount, pid, network, ipc, uts, cgroup) with a root of its own: an overlay over the root
of this machine. Its first process holds them; the end of this process is the end of every daemon, container, mount and
network link of the node. Beside it a keeper outside of the namespaces removes the node's cgroups afterwards.
"""
