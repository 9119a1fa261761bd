"""The pods' network on this machine: an address for each pod, and hosts files with the names of other pods."""
