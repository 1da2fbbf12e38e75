"""Simulate a training job on a fleet that fails, over weeks."""
