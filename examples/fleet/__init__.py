"""A fleet of trucks on Kafka: what simulates it, what computes, what shows and what notifies."""
