"""Longer looks at what pages claim, on real data: each is a command, and its
result is kept beside it.
"""
