"""Queue and quota as shown to users. Pure."""
