// RUN: convir-opt %s -p fold-constants --remarks 2>&1 | filecheck %s
// RUN: convir-opt %s -p fold-constants | convir-opt | filecheck %s --check-prefix=AGAIN
// RUN: convir-opt %s -p 'fold-constants{only-arithmetic=true}' | filecheck %s --check-prefix=ARITH

#id = affine_map<(d0) -> (d0)>
#outer = affine_map<(d0, d1) -> (d0)>
#both = affine_map<(d0, d1) -> (d0, d1)>

// The chain is computed once, and only its end is stored; the filter itself is gone.
// CHECK: remark: [fold-constants] linalg.generic rewritten: 16 bytes instead of 2 ops at every run
// CHECK: remark: [fold-constants] linalg.generic not rewritten: its result is one value, which is cheaper to fill in
// CHECK: remark: [fold-constants] linalg.generic not rewritten: its result takes 8192 bytes, computed from 128 bytes of constants
// CHECK: remark: [fold-constants] linalg.generic not rewritten: 'conv.constant' op tensor "w" of {{.*}}nowhere.npz cannot be read
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %[[C:.*]] = conv.constant dense<[5.000000e+00, 4.000000e+00, 3.000000e+00, 2.000000e+00]> : tensor<4xf32> : tensor<4xf32>
// CHECK-NEXT:    arith.addf %x, %[[C]]
// AGAIN: conv.constant dense<[5.000000e+00
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %one = arith.constant 1.0 : f32
  %three = arith.constant 3 : index
  %e = tensor.empty() : tensor<4xf32>
  %flipped = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<4xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = arith.subi %three, %i : index
    %v = tensor.extract %w[%j] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  %shifted = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%flipped : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %one : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %y = arith.addf %x, %shifted : tensor<4xf32>
  return %y : tensor<4xf32>
}

// A reshape costs nothing: what is in front of it is stored.
// CHECK-LABEL: func.func @reshaped
// CHECK-NEXT:    %[[C:.*]] = conv.constant dense<[2.000000e+00, 4.000000e+00]> : tensor<2xf32> : tensor<2xf32>
// CHECK-NEXT:    tensor.expand_shape %[[C]]
// CHECK-NEXT:    return
func.func @reshaped() -> tensor<2x1xf32> {
  %w = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %twice = arith.addf %w, %w : tensor<2xf32>
  %0 = tensor.expand_shape %twice [[0, 1]] output_shape [2, 1] : tensor<2xf32> into tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}

// Not rewritten because every element is the same: a fill is cheaper than a constant.
// CHECK-LABEL: func.func @uniform
// CHECK: linalg.generic
func.func @uniform() -> tensor<4xf32> {
  %w = arith.constant dense<1.0> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%w : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Not rewritten because a broadcast grows.
// CHECK-LABEL: func.func @grows
// CHECK: linalg.generic
func.func @grows() -> tensor<32x64xf32> {
  %w = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]> : tensor<32xf32>
  %e = tensor.empty() : tensor<32x64xf32>
  %0 = linalg.generic {indexing_maps = [#outer, #both], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<32xf32>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<32x64xf32>
  return %0 : tensor<32x64xf32>
}

// Not rewritten because the file is not there; that is an error for who runs it, not here.
// CHECK-LABEL: func.func @missing
// CHECK: conv.constant #conv.blob
// CHECK: linalg.generic
func.func @missing() -> tensor<4xf32> {
  %w = conv.constant #conv.blob<"nowhere.npz", "w", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%w : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %v : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// What reads an argument stays, and so does what has no elements yet.
// CHECK-LABEL: func.func @computed
// CHECK-NEXT:    tensor.empty
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    return
func.func @computed(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0, %e : tensor<4xf32>, tensor<4xf32>
}

// Only arithmetic: the weights are scaled; the flip, which others see through, stays an op.
// ARITH-LABEL: func.func @scaled_and_flipped
// ARITH:         %[[W:.*]] = conv.constant dense<[2.000000e+00, 6.000000e+00]> : tensor<2xf32>
// ARITH:         %[[F:.*]] = linalg.generic
// ARITH:           tensor.extract %[[W]]
// ARITH:         linalg.generic {{.*}} ins(%[[F]], %s :
// ARITH:         return
func.func @scaled_and_flipped() -> tensor<2xf32> {
  %w = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %s = arith.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %one = arith.constant 1 : index
  %e = tensor.empty() : tensor<2xf32>
  %scaled = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%w, %s : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %m = arith.mulf %v, %u : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  %flipped = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<2xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = arith.subi %one, %i : index
    %v = tensor.extract %scaled[%j] : tensor<2xf32>
    linalg.yield %v : f32
  } -> tensor<2xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%flipped, %s : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %m = arith.mulf %v, %u : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
