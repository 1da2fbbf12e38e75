"""MkDocs hooks: they put the pages together and keep what a build can reuse."""
