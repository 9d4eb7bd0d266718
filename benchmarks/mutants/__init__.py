"""Mutation testing by sample: changes one operator, constant or call; does a test fail?"""
