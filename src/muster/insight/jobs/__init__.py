"""One job as shown to users: its state, its failures, its trials, its attempts. Pure."""
