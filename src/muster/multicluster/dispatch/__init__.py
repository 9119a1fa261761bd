"""What is decided of one workload that goes to another cluster. Pure."""
