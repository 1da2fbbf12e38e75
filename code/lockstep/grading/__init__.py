"""How labs, drills and bugs are graded: criteria, on ranks that may hang."""
