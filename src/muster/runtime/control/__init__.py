"""Run reconcilers: queues of keys, controllers, and the code that starts, paces and elects them."""
