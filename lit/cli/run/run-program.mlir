// rt text runs as it stands, on either device.
// RUN: convir-run %s --input=2xf32=1,2 | filecheck %s
// RUN: convir-run %s --input=2xf32=1,2 --device host | filecheck %s

// CHECK: result #0: 2xf32
// CHECK: [1. 2.]
func.func @main(%x: memref<2xf32>, %y: memref<2xf32>) attributes {rt.program} {
  rt.copy %x to %y : memref<2xf32> to memref<2xf32>
  return
}
