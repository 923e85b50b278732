"""Config to plan: references, jobs, checks, differences, charts. Pure."""
