"""Records of the metadata log, `__cluster_metadata`."""
