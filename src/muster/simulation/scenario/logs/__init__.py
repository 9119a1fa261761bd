"""Read logs of jobs and lists of nodes: tables, and the formats in which clusters publish them."""
