"""Between the wire and the pipeline: who is let in, how requests come and answers go, and how much of it at once."""
