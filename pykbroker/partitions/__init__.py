"""One replica of a partition: who may read and write what, and who waits for it."""
