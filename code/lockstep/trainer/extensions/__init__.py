"""What attaches to the trainer's core at its three seams: phases, strategies
and writers. The core imports none of it.
"""
