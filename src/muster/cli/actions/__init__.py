"""What commands do to a cluster, separate from their syntax and their output."""
