"""A measure of the exam: sound training loops with random faults planted in
them, and sound variants, each confirmed by runs with restarts."""
