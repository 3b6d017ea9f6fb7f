"""What records tell: a job's phases, what in its profile hurts, and which servers are slow."""
