"""A declared pipeline at work in Spark: rows from topics, through steps, into targets."""
