"""Kubernetes' protobuf encoding."""
