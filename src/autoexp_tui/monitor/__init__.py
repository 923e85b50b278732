"""Conditions, actions, metrics, anomalies and the decider. Pure: facts in, events out."""
