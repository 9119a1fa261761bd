"""The pods' network on this machine: an address for each, and hosts files in which they find each other."""
