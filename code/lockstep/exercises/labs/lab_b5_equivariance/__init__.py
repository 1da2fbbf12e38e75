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
