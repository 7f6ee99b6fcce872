"""Files that are type-checked, not run."""
