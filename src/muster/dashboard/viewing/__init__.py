"""Who looks, with which rights, and at what: sessions, hosts, and the live copy of what a viewer may see."""
