"""Arithmetic for planning a run: plain Python that a browser can run too."""
