"""Published training runs, and what the planner predicts for them."""
