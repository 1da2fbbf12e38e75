"""How the examiner and what it sees speak of the same things."""

# Environment variables of a trainer under exam.
ADDRESS = "LOCKSTEP_EXAM_SOCKET"  # where the examiner listens
MARK = "LOCKSTEP_EXAM_LAUNCH"  # by which a launch's processes are found again
SAMPLES = "LOCKSTEP_EXAM_SAMPLES"  # how many the dataset has
OVERFLOWS = "LOCKSTEP_EXAM_OVERFLOWS"  # how many scaled losses are infinite
VARIANT = "LOCKSTEP_EXAM_VARIANT"  # another number, another dataset
