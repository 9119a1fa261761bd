"""The actions of commands on a cluster, separate from the commands' syntax and output."""
