"""What one GPU does with the chapters' subjects: kernels, steps of a decoder,
memory and repeatability, measured once and recorded with the hardware's name.

What gloo does on a CPU belongs to `benchmarks`; what a GPU would do on many
nodes belongs to the planner.
"""
