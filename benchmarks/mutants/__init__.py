"""Mutation testing by sample: changes one operator, constant or call and runs the tests."""
