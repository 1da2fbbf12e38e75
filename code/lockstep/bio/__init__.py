"""Biotech on the trainer: where molecules and proteins break its assumptions.

Every module is usable by itself. Those that read molecules want RDKit, which
`pip install 'lockstep-handbook[bio]'` brings; the others want torch alone.
"""
