"""One queue in front of many clusters (Kueue KEP-693): each job runs whole, in the cluster that admits it first."""
