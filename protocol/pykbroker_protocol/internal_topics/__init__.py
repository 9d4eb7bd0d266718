"""The records of the topics in which coordinators keep their state: Kafka's keys and values."""
