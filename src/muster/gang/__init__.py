"""Level 3, placement: decide on which nodes the pods of a gang run together. Pure."""
