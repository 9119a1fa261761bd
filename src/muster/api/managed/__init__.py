"""The admission of objects that Muster queues (jobs, pods): their defaults, validation and gates. Pure."""
