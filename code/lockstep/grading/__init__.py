"""How an answer is graded: criterion by criterion, on ranks that may hang.

Each lab, drill and bug has its own criteria; what all of them share is here,
and so are the mutants, the wrong answers that graders are tested with.
"""
