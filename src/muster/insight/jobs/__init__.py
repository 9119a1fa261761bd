"""One job as people are told of it: its state, its failures, its trials, its attempts. Pure."""
