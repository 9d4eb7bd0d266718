"""The records of the cluster's metadata log."""
