"""Followers: copying the records of partitions from the brokers that lead them."""
