"""What each operation means on arrays, a file per dialect or kind."""
