"""Record batches in format version 2: parsing, building, validation and compression."""
