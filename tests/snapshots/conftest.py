"""Snapshots are made as other screens of tests are: one time zone, no motion."""

from tests.cockpit.conftest import steady as steady
