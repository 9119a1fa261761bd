"""Names that are ours on objects: annotations, labels and the marks of the embedded cluster. Pure."""
