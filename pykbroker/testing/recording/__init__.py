"""Records the requests and responses between clients and a Kafka cluster with a proxy."""
