"""What people are told of their jobs and queues, as values: whoever shows them brings the terminal, or the page."""
