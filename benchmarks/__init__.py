"""The same work against PyKBroker and a real Apache Kafka, in one run, ratios out."""
