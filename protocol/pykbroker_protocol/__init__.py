"""The Kafka wire protocol: converts bytes to values and back, without I/O, clock or randomness."""
