"""One question each, answered in a few lines that a page shows and runs: what
torch does, what an average of averages is, which ranks share a group.
"""
