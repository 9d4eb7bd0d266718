"""Brokers that this one can look like to its clients: releases of Apache Kafka, and others."""
