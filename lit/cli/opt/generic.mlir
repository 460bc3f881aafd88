// RUN: convir-opt %s --print-op-generic | filecheck %s

func.func @f() {
  return
}

// CHECK: "func.func"()
