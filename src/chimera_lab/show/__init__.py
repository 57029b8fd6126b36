"""What nodes hear, to look at: maps over images, sentences and molecules, and drawings of topologies.

A `View` is what there is to draw (a `Scene`: pixels, words or atoms) with the rows of the resolvents. `page` makes an
interactive HTML file of views, without anything from outside; `picture` draws one as a PNG file.
"""
