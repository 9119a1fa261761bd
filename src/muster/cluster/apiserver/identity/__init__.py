"""Who is who: users, and the certificates and tokens by which they are known."""
