"""What tools do once their command line is read."""
