"""Transactions: who may write under a transactional id, and whether what it wrote counts."""
