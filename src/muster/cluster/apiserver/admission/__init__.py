"""Complete and judge objects before they are stored: plugins, policies and webhooks."""
