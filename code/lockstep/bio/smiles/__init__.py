"""A billion SMILES: prepared once, on disk, and read in the trainer's order.

`tokens`, `prepare` and `store` are the way there; `streams`, `skips` and
`scale` what goes wrong beside it; `train` the trainer on such a store.
"""
