"""Groups of consumers: who is a member, who reads what, how far each partition has been read."""
