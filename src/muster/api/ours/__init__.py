"""Muster's own names on objects: annotations, labels and the marks of the embedded cluster."""
