"""What lies on disk: journals, leases, records, sessions, provenance."""
