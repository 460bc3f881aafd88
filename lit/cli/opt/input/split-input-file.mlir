// Chunks come out as they went in, divided by the same line.
// RUN: convir-opt %s --split-input-file | filecheck %s

func.func @same_name() {
  return
}

// -----

func.func @same_name() {
  return
}

// CHECK:      func.func @same_name
// CHECK:      // -----
// CHECK-NEXT: builtin.module {
// CHECK-NEXT:   func.func @same_name
