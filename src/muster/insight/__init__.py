"""What people are told of their jobs and queues, as values: the command line, or a page, shows them."""
