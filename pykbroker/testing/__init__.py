"""Tools for whoever tests programs that talk to a Kafka cluster."""
