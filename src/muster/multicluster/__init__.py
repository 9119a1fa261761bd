"""One queue in front of many clusters (KEP-693): each job runs whole, in the one of them that admits it first."""
