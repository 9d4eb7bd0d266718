"""Answers clients from a recorded session, and says where they ask for something else."""
