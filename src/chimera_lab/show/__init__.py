"""Maps of the influence between nodes, over images, sentences and molecules, and drawings of topologies.

A `View` is a `Scene` (pixels, words or atoms) with rows of the resolvents. `page` makes a self-contained, interactive
HTML file of views; `picture` draws one view as a PNG file.
"""
