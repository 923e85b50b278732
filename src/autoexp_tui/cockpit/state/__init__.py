"""What the cockpit shows, computed from snapshots. Nothing here draws."""
