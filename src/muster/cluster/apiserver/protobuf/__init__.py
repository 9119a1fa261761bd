"""The decoder of Kubernetes' protobuf encoding."""
