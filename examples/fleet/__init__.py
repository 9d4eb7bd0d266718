"""A fleet of trucks on Kafka: simulator, pipeline, dashboard and notification service."""
