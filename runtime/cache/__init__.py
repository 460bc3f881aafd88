"""What compiling leaves on disk: object code and whole programs, found by content."""
