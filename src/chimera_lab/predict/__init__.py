"""Predictions of trained models for unlabelled data."""

from chimera_lab.predict.predict import predict

__all__ = ["predict"]
