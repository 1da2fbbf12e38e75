"""What stands on the pages: includes, figures, questions, diagrams, marks."""
