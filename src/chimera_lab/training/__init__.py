"""Training, the same for every kind of data.

    recipe  →  task  →  module + loaders  →  Lightning's Trainer  →  run folder

A kind of data provides a subclass of `Recipe` (its settings) and one of `Task` (its samples, model, loss and metrics);
`kinds` lists them. The rest is independent of the data: schedule, optimizer, averaging, checkpoints, records, curves.
"""
