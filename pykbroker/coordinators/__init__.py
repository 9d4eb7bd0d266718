"""The runtime around coordination: load, append what was decided, replay it, reply."""
