"""The cluster metadata as values: image, records, replay and snapshots. Pure: no I/O, no clock."""
