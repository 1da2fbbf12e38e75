"""Strategies: other ways than the core's to keep replicas in lock-step."""
