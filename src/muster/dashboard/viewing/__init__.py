"""The viewers: sessions, rights, hosts, and the live copy of the objects that a viewer may see."""
