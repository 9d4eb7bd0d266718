"""PyKBroker: a Kafka broker in one pip install."""
