"""The cluster's mind: a command becomes records in the metadata log, replayed into an image."""
