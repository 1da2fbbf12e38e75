"""Longer looks at what pages claim: each a command of its own."""
