"""The image of all functions, the forwarder and the hooks: an OCI archive, built without a container runtime."""
