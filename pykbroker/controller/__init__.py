"""The controller: decides commands and commits them as records of the metadata log."""
