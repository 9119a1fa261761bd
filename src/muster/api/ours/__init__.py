"""What objects say in names that are ours: annotations, labels and the marks of the embedded cluster. Pure."""
