"""What a compile did, as data and as one page that shows it."""
