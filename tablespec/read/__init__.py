"""Planning and reading slices."""
