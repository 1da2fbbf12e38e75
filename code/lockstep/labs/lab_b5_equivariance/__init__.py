"""Lab B5: equivariance.

**A test of equivariance on centered molecules passes a layer that is anchored
to the origin.** A test shows a symmetry of the layer only where the input has
none of its own to lend.

Write a layer of the EGNN kind, and one that tells a molecule from its mirror
image. Write uniform rotations, the check that says what a layer breaks, and the
tolerance that float32 needs.

The grader gives your check layers that are broken in one way, and sound ones
far from the origin. It holds your layers against a check of its own.
"""

STARTER = """Lab B5: equivariance.

A layer takes features (atoms, f) and positions (atoms, 3) in Å, and returns
both. It works in the dtype of its parameters, which `.double()` changes.

What a layer makes is its features, and what it adds to positions. A position as
such is large, and would hide an error in what was added.
"""

TODO = {
    "EGNN.__init__": "",
    "EGNN.forward": "distances for h, differences for x",
    "ChiralEGNN.__init__": "",
    "ChiralEGNN.forward": "what changes its sign in a mirror?",
    "rotations": "a determinant of 1 is not yet uniform",
    "breaks": "a check that can fail",
    "tolerance": "no constant; try it 1,000 Å away",
}
