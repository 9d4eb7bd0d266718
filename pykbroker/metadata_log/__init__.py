"""The metadata log on disk: records, snapshots and the quorum state, for leader and observer."""
