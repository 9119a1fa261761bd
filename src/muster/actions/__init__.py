"""The actions of users on jobs and queues. The command line and the Python interface share them."""
