"""Data: from files to samples, and from samples to tensors.

A kind of data offers `Samples`: a length, a sample for an index, and how samples make a batch. All randomness of a
sample is a function of the run's seed, the epoch and the sample's index (`chimera_lab.data.random`), never of what came
before.
"""
