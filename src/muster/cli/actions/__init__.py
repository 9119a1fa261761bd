"""What commands do to a cluster, apart from how they are typed and what they print."""
