"""What is served: every resource with its names, rules and subresources."""
