"""The commands that show groups of consumers, move their offsets and end them."""
