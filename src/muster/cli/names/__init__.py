"""What users type: names and words, and what may have been meant by those that are not known."""
