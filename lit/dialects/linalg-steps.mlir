// Strides and dilations are tensors or vectors, a splat or a list; they print as they were written,
// which MLIR reads.
// RUN: convir-opt %s | convir-opt | filecheck %s
// RUN: convir-opt %s --print-op-generic | convir-opt | filecheck %s
// RUN: convir-opt %s --pipeline default | filecheck %s --check-prefix=DEFAULT
// RUN: convir-run %s --device host --check | filecheck %s --check-prefix=CHECKED

// CHECK: linalg.conv_2d_nhwc_hwcf {
// CHECK-DAG: strides = dense<2> : vector<2xi64>
// CHECK-DAG: dilations = dense<[1, 2]> : vector<2xi64>
// DEFAULT: func.func @main
// CHECKED: check against the module as read: agrees
func.func @main(%x: tensor<1x9x9x3xf32>, %w: tensor<3x3x3x4xf32>, %o: tensor<1x4x3x4xf32>)
    -> tensor<1x4x3x4xf32> {
  %y = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : vector<2xi64>,
                                 dilations = dense<[1, 2]> : vector<2xi64>}
      ins(%x, %w : tensor<1x9x9x3xf32>, tensor<3x3x3x4xf32>)
      outs(%o : tensor<1x4x3x4xf32>) -> tensor<1x4x3x4xf32>
  return %y : tensor<1x4x3x4xf32>
}
