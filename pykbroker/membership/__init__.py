"""Membership of a cluster: metadata from the controllers, registration and heartbeats."""
