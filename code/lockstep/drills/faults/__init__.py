"""Failures that no `--fault` makes, each as small as it goes."""
