"""Change jobs that were submitted, and explain them."""
