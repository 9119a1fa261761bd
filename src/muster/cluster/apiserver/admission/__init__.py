"""What else must be so, and is filled in, before an object is stored."""
