"""The decisions behind the pages about jobs, separate from the handling of requests."""
