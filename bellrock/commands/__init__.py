"""The verbs of `bellrock`. Each is thin: parse, call, print. What takes long to import is imported where a verb needs it."""
