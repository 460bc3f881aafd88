// The options: a shape for each argument, `scalar` for a number or a tensor of rank 0.
// RUN: convir-opt %s -p 'bind-sizes{function=f sizes="2x3","scalar","scalar"}' | filecheck %s
// RUN: not convir-opt %s -p 'bind-sizes{function=f sizes="2x","scalar","scalar"}' 2>&1 | filecheck %s --check-prefix=SHAPE
// RUN: not convir-opt %s -p 'bind-sizes{sizes="2x3"}' 2>&1 | filecheck %s --check-prefix=NAME

// CHECK: func.func @f(%x: tensor<2x3xf32>, %r: tensor<f32>, %n: f32) -> tensor<2x3xf32>
// SHAPE: error: '2x' is not a shape such as 4x8 or scalar
// NAME: error: there is no function 'main' with a body
func.func @f(%x: tensor<?x?xf32>, %r: tensor<f32>, %n: f32) -> tensor<?x?xf32> {
  return %x : tensor<?x?xf32>
}
