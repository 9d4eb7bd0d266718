"""Commands about transactions: asked of coordinators, and of the leaders of partitions."""
