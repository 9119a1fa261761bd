"""Change queues, and divide the quota of the nodes among teams."""
