"""Size-prefixed frames: cuts received bytes into frames and joins buffers that are sent."""
