"""Archives of topics in files; each record is stored once."""
