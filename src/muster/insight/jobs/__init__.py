"""One job in the form that users see: its state, its failures, its trials, its attempts. Pure."""
