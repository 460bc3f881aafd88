"""The host device's toolchain: LLVM IR enters, callable machine code leaves, on all cores."""
