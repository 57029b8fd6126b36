"""Undirected paths: the inverse of a tridiagonal matrix is semiseparable."""
