// RUN: convir-opt %s --split-input-file -p convert-filter-to-channels-last | filecheck %s
// RUN: convir-opt %s --split-input-file -p convert-filter-to-channels-last --remarks -o %t 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: convir-opt %s --split-input-file -p 'convert-filter-to-channels-last{filter-layout=hwfc}' | filecheck %s --check-prefix=HWFC

// C H W F, as a backward data convolution reads its filter.

func.func @chwf(%x: tensor<1x16x16x4xf32>, %w: tensor<4x3x3x16xf32>, %y: tensor<1x14x14x16xf32>) -> tensor<1x14x14x16xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d5, d2 + d6, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x16x16x4xf32>, tensor<4x3x3x16xf32>) outs(%y : tensor<1x14x14x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %1 = arith.mulf %in, %in_0 : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<1x14x14x16xf32>
  return %0 : tensor<1x14x14x16xf32>
}

// REMARK: linalg.generic rewritten: channels were 144 elements apart in its filter
// CHECK-LABEL: @chwf
// CHECK:         %[[EMPTY:.+]] = tensor.empty() : tensor<16x3x3x4xf32>
// CHECK-NEXT:    %[[T:.+]] = linalg.transpose ins(%w : tensor<4x3x3x16xf32>) outs(%[[EMPTY]] : tensor<16x3x3x4xf32>) permutation = [3, 1, 2, 0]
// CHECK-NEXT:    %[[R:.+]] = linalg.generic {indexing_maps = [
// CHECK-SAME:      affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d5, d6, d4)>
// CHECK-SAME:      ins(%x, %[[T]] : tensor<1x16x16x4xf32>, tensor<16x3x3x4xf32>) outs(%y :
// CHECK:         return %[[R]]
// HWFC-LABEL: @chwf
// HWFC:         linalg.transpose {{.*}} permutation = [1, 2, 3, 0]

// -----

// H W C F, which a named op spells.

func.func @named(%x: tensor<2x10x10x16xf32>, %w: tensor<3x3x16x32xf32>, %y: tensor<2x8x8x32xf32>) -> tensor<2x8x8x32xf32> {
  %0 = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<2x10x10x16xf32>, tensor<3x3x16x32xf32>) outs(%y : tensor<2x8x8x32xf32>) -> tensor<2x8x8x32xf32>
  return %0 : tensor<2x8x8x32xf32>
}

// REMARK: linalg.conv_2d_nhwc_hwcf rewritten: channels were 32 elements apart in its filter
// CHECK-LABEL: @named
// CHECK:         %[[T:.+]] = linalg.transpose {{.*}} permutation = [3, 0, 1, 2]
// CHECK:         linalg.generic {{.*}} ins(%x, %[[T]] : tensor<2x10x10x16xf32>, tensor<32x3x3x16xf32>)
// HWFC-LABEL: @named
// HWFC:         linalg.transpose {{.*}} permutation = [0, 1, 3, 2]

// -----

// Groups stay in front: G C F H W to G F H W C; the filter may be the first operand.

func.func @grouped(%x: tensor<2x10x10x7x4xf16>, %w: tensor<7x4x16x3x3xf16>, %y: tensor<2x8x8x7x16xf32>) -> tensor<2x8x8x7x16xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d3, d7, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1 + d5, d2 + d6, d3, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%w, %x : tensor<7x4x16x3x3xf16>, tensor<2x10x10x7x4xf16>) outs(%y : tensor<2x8x8x7x16xf32>) {
  ^bb0(%in: f16, %in_0: f16, %out: f32):
    %1 = arith.extf %in : f16 to f32
    %2 = arith.extf %in_0 : f16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %out, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<2x8x8x7x16xf32>
  return %0 : tensor<2x8x8x7x16xf32>
}

// CHECK-LABEL: @grouped
// CHECK:         %[[T:.+]] = linalg.transpose {{.*}} permutation = [0, 2, 3, 4, 1]
// CHECK:         linalg.generic {{.*}} ins(%[[T]], %x : tensor<7x16x3x3x4xf16>,
// HWFC-LABEL: @grouped
// HWFC:         linalg.transpose {{.*}} permutation = [0, 3, 4, 2, 1]

// -----

// A filter of dynamic extent.

func.func @dynamic_filter(%x: tensor<1x32x32x4xf32>, %w: tensor<4x?x?x16xf32>, %y: tensor<1x14x14x16xf32>) -> tensor<1x14x14x16xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d5, d2 + d6, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x32x32x4xf32>, tensor<4x?x?x16xf32>) outs(%y : tensor<1x14x14x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %1 = arith.mulf %in, %in_0 : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<1x14x14x16xf32>
  return %0 : tensor<1x14x14x16xf32>
}

// REMARK: linalg.generic rewritten: channels were ? elements apart in its filter
// CHECK-LABEL: @dynamic_filter
// CHECK:         %[[H:.+]] = tensor.dim %w
// CHECK:         %[[W:.+]] = tensor.dim %w
// CHECK:         tensor.empty(%[[H]], %[[W]]) : tensor<16x?x?x4xf32>

// -----

// The 1x1 convolution of examples/ as a convolution: large enough for a pass over its filter.

func.func @large_1x1(%x: tensor<32x25x25x2048xf16>, %w: tensor<2048x1x1x1024xf16>, %y: tensor<32x25x25x1024xf32>) -> tensor<32x25x25x1024xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d5, d2 + d6, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<32x25x25x2048xf16>, tensor<2048x1x1x1024xf16>) outs(%y : tensor<32x25x25x1024xf32>) {
  ^bb0(%in: f16, %in_0: f16, %out: f32):
    %1 = arith.extf %in : f16 to f32
    %2 = arith.extf %in_0 : f16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %out, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<32x25x25x1024xf32>
  return %0 : tensor<32x25x25x1024xf32>
}

// CHECK-LABEL: @large_1x1
// CHECK:         linalg.transpose {{.*}} permutation = [3, 1, 2, 0]

// -----

// Not rewritten because a matrix product this small reads either layout from cache.

func.func @small_1x1(%x: tensor<1x16x16x4xf32>, %w: tensor<4x1x1x16xf32>, %y: tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d5, d2 + d6, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x16x16x4xf32>, tensor<4x1x1x16xf32>) outs(%y : tensor<1x16x16x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %1 = arith.mulf %in, %in_0 : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<1x16x16x16xf32>
  return %0 : tensor<1x16x16x16xf32>
}

// REMARK: linalg.generic not rewritten: it is a matrix product of M = 256, below 384
// CHECK-LABEL: @small_1x1
// CHECK-NOT:     linalg.transpose

// -----

// Not rewritten because the image itself has no channels last: a backward weight convolution.

func.func @backward_weight(%x: tensor<16x26x18x288xf32>, %w: tensor<16x24x16x288xf32>, %y: tensor<288x3x3x288xf32>) -> tensor<288x3x3x288xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d1 + d5, d2 + d6, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d0)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<16x26x18x288xf32>, tensor<16x24x16x288xf32>) outs(%y : tensor<288x3x3x288xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %1 = arith.mulf %in, %in_0 : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<288x3x3x288xf32>
  return %0 : tensor<288x3x3x288xf32>
}

// REMARK: linalg.generic not rewritten: the innermost dimension of its windowed operand is not an input channel
// CHECK-LABEL: @backward_weight
// CHECK-NOT:     linalg.transpose

// -----

// Not rewritten because the channels are last already.

func.func @fhwc(%x: tensor<1x16x16x4xf32>, %w: tensor<16x3x3x4xf32>, %y: tensor<1x14x14x16xf32>) -> tensor<1x14x14x16xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d5, d2 + d6, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d5, d6, d4)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x16x16x4xf32>, tensor<16x3x3x4xf32>) outs(%y : tensor<1x14x14x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %1 = arith.mulf %in, %in_0 : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<1x14x14x16xf32>
  return %0 : tensor<1x14x14x16xf32>
}

// REMARK: linalg.generic not rewritten: its filter has its channels last
// CHECK-LABEL: @fhwc
// CHECK-NOT:     linalg.transpose

// -----

// Not rewritten because there is no filter: no operand slides over the other.

func.func @matmul(%x: tensor<8x4xf32>, %w: tensor<4x16xf32>, %y: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = linalg.matmul ins(%x, %w : tensor<8x4xf32>, tensor<4x16xf32>) outs(%y : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// REMARK: linalg.matmul not rewritten: no operand has windows
// CHECK-LABEL: @matmul
// CHECK-NOT:     linalg.transpose

// -----

// Not rewritten because a depthwise filter has no input channels to put last.

func.func @depthwise(%x: tensor<1x16x16x4xf32>, %w: tensor<4x3x3xf32>, %y: tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1 + d4, d2 + d5, d3)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x16x16x4xf32>, tensor<4x3x3xf32>) outs(%y : tensor<1x14x14x4xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %1 = arith.mulf %in, %in_0 : f32
    %2 = arith.addf %out, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<1x14x14x4xf32>
  return %0 : tensor<1x14x14x4xf32>
}

// REMARK: linalg.generic not rewritten: its filter has no input channels
// CHECK-LABEL: @depthwise
// CHECK-NOT:     linalg.transpose

// -----

// Taps of an open type: the filter is read with the sizes that are known of it.

func.func @open_taps(%x: tensor<8x3xi32>, %a: tensor<3x2x4xi32>, %y: tensor<4x7xi32>) -> tensor<4x7xi32> {
  %w = tensor.cast %a : tensor<3x2x4xi32> to tensor<?x2x4xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0 + d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d2, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d3, d0)>], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<8x3xi32>, tensor<?x2x4xi32>) outs(%y : tensor<4x7xi32>) {
  ^bb0(%p: i32, %q: i32, %o: i32):
    %m = arith.muli %p, %q : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<4x7xi32>
  return %r : tensor<4x7xi32>
}

// REMARK: linalg.generic rewritten: channels were 8 elements apart in its filter
// CHECK-LABEL: @open_taps
// CHECK:         %[[W:.+]] = tensor.cast %w : tensor<?x2x4xi32> to tensor<3x2x4xi32>
// CHECK:         linalg.transpose ins(%[[W]]{{ ?}}:{{ ?}}tensor<3x2x4xi32>)
// CHECK-SAME:    permutation = [2, 1, 0]
