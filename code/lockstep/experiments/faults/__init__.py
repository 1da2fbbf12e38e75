"""Failures that no `--fault` of the trainer makes, each as small as it goes."""
