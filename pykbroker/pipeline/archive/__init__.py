"""Topics kept in files, each record once."""
