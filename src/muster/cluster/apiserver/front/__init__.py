"""The front between network and pipeline: it admits clients, reads requests, sends responses, and limits all three."""
