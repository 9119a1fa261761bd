"""Decode Kubernetes' protobuf encoding."""
