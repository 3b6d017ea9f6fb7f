"""API and pages."""
