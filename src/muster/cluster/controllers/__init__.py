"""What a real cluster's own controllers do: namespaces, owners, quotas, accounts."""
