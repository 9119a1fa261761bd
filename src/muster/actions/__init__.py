"""The operations on jobs and queues that the command line and the Python SDK share."""
