"""Directed paths: the recurrence x_t = a_t x_{t−1} + b_t."""
