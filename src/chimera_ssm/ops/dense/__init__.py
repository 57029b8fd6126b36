"""Dense matrices, one for each part of a topology."""
