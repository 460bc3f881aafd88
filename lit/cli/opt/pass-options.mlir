// Options are spelled with hyphens or underscores.
// RUN: convir-opt %s -p 'convert-memref-to-ptr{lower_func=true}' | filecheck %s
// RUN: convir-opt %s -p 'convert-memref-to-ptr{ lower-func=true },dce' | filecheck %s

func.func @pointers(%a: memref<4xf32>) {
  return
}

// CHECK-LABEL: func.func @pointers(%a: !ptr_xdsl.ptr)
