// A module that says which line it comes from is compared with that line's own definition too.
// RUN: not convir-run %s --check | filecheck %s

// CHECK: check against the module as read: agrees: largest error 0, allowed 0 (bit for bit)
// CHECK: check against its source: differs at @main result #0 [{{.*}}]: largest error
module attributes {convir.source = "conv -n 1 -c 2 -H 2 -W 2 -k 2 -y 1 -x 1 -F 1 --in_layout NHWC --fil_layout NHWC --out_layout NHWC"} {
  func.func @main(%x: tensor<1x2x2x2xf32>, %w: tensor<2x1x1x2xf32>) -> tensor<1x2x2x2xf32> {
    return %x : tensor<1x2x2x2xf32>
  }
}
