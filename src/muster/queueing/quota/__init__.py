"""What each queue may use, and what it uses."""
