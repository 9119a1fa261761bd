"""The rules of the groups besides core and batch, and of core kinds that are related to such a group."""
