"""Seventeen faulty copies, each with a run that shows its symptom.

A one-file trainer of the kind that is rehearsed for interviews was rebuilt from
its description. Each module here keeps one of its defects, as small as it goes,
with the others fixed where they would hide it.

    python -m lockstep.debugging.silent 6
"""
