"""Coordinators as pure decisions: values and the time in, an outcome out."""
