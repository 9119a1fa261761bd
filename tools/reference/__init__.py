"""The reference pages of docs/, made from the commands, from the Configuration's types and the Python interface."""
