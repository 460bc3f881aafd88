"""What libraries compute: cuBLAS on a GPU."""
