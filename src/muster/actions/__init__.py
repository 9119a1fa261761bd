"""The actions of users on jobs and queues: one implementation below the command line and the Python interface."""
