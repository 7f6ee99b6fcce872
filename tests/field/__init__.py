"""The cases from the field."""
