"""One module per API: what its request and its response look like."""
