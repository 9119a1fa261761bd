"""Level 3, placement: decides on which nodes the pods of a gang run together. Pure."""
