"""The front between wire and pipeline: it admits clients, reads requests, sends answers, and bounds all three."""
