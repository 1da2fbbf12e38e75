"""What builds the pages and keeps them true: MkDocs hooks, checks of the text,
and the pytest plugin that runs the blocks of code.

Nothing here imports torch, so that the site is built without it.
"""
