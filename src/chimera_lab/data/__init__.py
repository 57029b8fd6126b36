"""Data: from files to samples, and from samples to tensors.

A kind of data provides `Samples`: a length, a sample for an index, and a collate function. The random numbers of a
sample are a function of the run's seed, the epoch and the sample's index (`chimera_lab.data.random`) only.
"""
