// What has no meaning is one located error: here an element outside of its tensor.
// RUN: not convir-run %s --input=index=7 --input=4xf32 2>&1 | filecheck %s

// CHECK: run-undefined.mlir:6:8: error: 'tensor.extract' op reads 7 to 7 of a dimension #0 of size 4
func.func @main(%i: index, %x: tensor<4xf32>) -> f32 {
  %y = tensor.extract %x[%i] : tensor<4xf32>
  return %y : f32
}
