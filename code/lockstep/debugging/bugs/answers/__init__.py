"""An answer to each bug: the symptom, and a proof by a run."""
