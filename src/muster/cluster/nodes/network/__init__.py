"""The pods' network on this machine: an address for each pod, and hosts files in which pods find each other."""
