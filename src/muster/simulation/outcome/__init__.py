"""Keep, sum up and judge what became of the jobs of a simulation."""
