"""Rules of the kinds by which an API server is governed."""
