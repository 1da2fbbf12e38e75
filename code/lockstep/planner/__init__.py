"""Arithmetic for planning a run: plain Python that a browser can run too.

Everything here keeps to what MicroPython runs: no typing, no dataclasses, no
star in a list, no thousands separator in a format.
"""
