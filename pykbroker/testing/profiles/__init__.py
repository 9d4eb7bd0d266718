"""Releases of Apache Kafka and Redpanda whose APIs and versions a broker can advertise."""
