"""What the trainer costs, measured beside a bare loop and two peers."""
