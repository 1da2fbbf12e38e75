"""A check of the interview cut that somebody has typed, cell by cell.

python -m lockstep.drills.rehearsal FILE
"""
