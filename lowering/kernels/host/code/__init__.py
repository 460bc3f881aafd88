"""What families write their LLVM IR with: text, vectors, storage, tiles, epilogues."""
