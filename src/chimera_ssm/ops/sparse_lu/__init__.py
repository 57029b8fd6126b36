"""General graphs: sparse LU on a fill-reducing ordering."""
