"""The commands `cluster describe` and `api-versions`."""
