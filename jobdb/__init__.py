"""Jobs, and what each did to the I/O system: job database, profile, series, tables."""
