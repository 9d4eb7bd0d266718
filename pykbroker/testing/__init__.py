"""Tools for tests of Kafka clients: embedded broker, simulation, histories, record and replay."""
