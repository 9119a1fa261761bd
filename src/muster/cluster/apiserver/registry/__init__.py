"""The registry of served resources, each with its names, rules and subresources."""
