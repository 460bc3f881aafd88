"""What predictions of several families are made of: memory traffic, and how resources add up."""
