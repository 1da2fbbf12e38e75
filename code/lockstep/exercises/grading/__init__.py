"""How an answer is graded: criterion by criterion, on ranks that may hang.

What a lab, a drill or a bug asks for lies with it; what all of them need to
ask it lies here.
"""
