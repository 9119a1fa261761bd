"""Complete and validate objects before they are stored: plugins, policies and webhooks."""
