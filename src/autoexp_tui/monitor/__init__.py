"""Conditions, reactions, metrics, anomalies, the decider. Facts in, events out."""
