"""Stands between clients and a Kafka cluster, and writes down what they say to each other."""
