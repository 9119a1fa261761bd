"""Completes and judges objects before they are stored: plugins, policies and webhooks."""
