"""What the pages show as evidence: small demonstrations, slow jobs, faults,
campaigns of them, benchmarks and studies.

`record` says on what machine and revision a result was made, and `tables`
writes it as sections that pages include. What a chapter teaches belongs to
`parallel`, `rl` or `bio`; what a reader is asked to do, to `labs`, `drills` or
`debugging`.
"""
