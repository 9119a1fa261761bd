"""What people do to jobs, and how it is done: one implementation below the command line and the Python interface."""
