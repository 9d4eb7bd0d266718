"""Transactions: producers of transactional ids, the partitions of a transaction, its end."""
