"""Records of `__consumer_offsets` and `__transaction_state`, as keys and values."""
