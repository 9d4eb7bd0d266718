"""What a pipeline is, as values: read from TOML, checked as a whole, with no Spark in sight."""
