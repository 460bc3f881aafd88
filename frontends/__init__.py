"""What others speak: MIOpenDriver lines come in, modules of `dialects` go out."""
