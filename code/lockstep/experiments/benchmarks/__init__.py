"""What the trainer costs beside a bare loop and two peers, what gloo's links
and the labs' parts cost, and recorded traces: measured, with the machine named.
"""
