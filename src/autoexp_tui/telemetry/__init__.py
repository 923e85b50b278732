"""Metrics, series, alerts and rule matches from new bytes of logs. Pure."""
