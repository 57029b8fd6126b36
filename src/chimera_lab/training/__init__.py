"""Training, the same for every kind of data.

    recipe  →  task  →  module + loaders  →  Lightning's Trainer  →  run folder

A kind of data brings a subclass of `Recipe` (its settings) and one of `Task` (its samples, model, loss and metrics).
The rest knows nothing of it: the course of steps, the optimiser, averaging, checkpoints, resuming, records and curves.
"""
