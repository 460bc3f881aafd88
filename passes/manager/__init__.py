"""What runs passes: pipelines as text, options, remarks, and where passes are found."""
