// `--check` compares with the module as it was read: in every bit where that is proved.
// RUN: convir-run %s -p canonicalize,cse --check --function exact | filecheck %s
// RUN: convir-run %s --check --function inexact | filecheck %s --check-prefix=TOLERANCE
// RUN: convir-run %s --device host --check --function exact | filecheck %s

// CHECK: check against the module as read: agrees: largest error 0, allowed 0 (bit for bit)
#id = affine_map<(i) -> (i)>
func.func @exact(%x: tensor<4xf16>) -> tensor<4xf16> {
  %e = tensor.empty() : tensor<4xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf16>) outs(%e : tensor<4xf16>) {
  ^bb0(%a: f16, %out: f16):
    %b = arith.mulf %a, %a : f16
    linalg.yield %b : f16
  } -> tensor<4xf16>
  return %y : tensor<4xf16>
}

// TOLERANCE: agrees: largest error {{.*}} (not bit for bit: math.exp at {{.*}}run-check.mlir:21:8 may round)
func.func @inexact(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
