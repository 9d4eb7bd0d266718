"""The command `pykbroker`: starts a broker and sends requests to Kafka clusters."""
