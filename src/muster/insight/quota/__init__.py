"""Queues and quota as people are told of them. Pure."""
