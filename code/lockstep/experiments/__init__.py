"""What the pages show as evidence: small demonstrations, slow jobs, faults
and campaigns of them, benchmarks and studies.

`provenance` says on what machine and revision a result was made; `markdown`
writes it as sections that pages include. What a chapter teaches belongs to
`parallel`, `rl` or `bio`; what a reader is asked to do, to `labs`, `drills` or
`debugging`.
"""
