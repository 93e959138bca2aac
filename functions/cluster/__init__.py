"""The Cluster itself: ties the infrastructure object to it, mirrors its status, cleans up in order."""
