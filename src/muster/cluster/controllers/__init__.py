"""Does the work of a real cluster's own controllers: namespaces, owners, quotas, accounts."""
