// The gradient of the input of a 3x3 convolution with stride 2 and 32 groups, as torch-mlir and
// IREE lower it.
//
//   MIOpenDriver convfp16 -n 32 -c 1024 -H 50 -W 50 -k 1024 -y 3 -x 3 -u 2 -v 2 -p 1 -q 1 -g 32 -F 2
//     --in_layout NHWC --fil_layout NHWC --out_layout NHWC
//
//   %dy   N P Q (G K/G)   32x25x25x1024   gradient of the output
//   %w    (G K/G) R S C/G   1024x3x3x32   filter
//   dx    N H W (G C/G)   32x50x50x1024   gradient of the input, accumulated in f32
//
// %dy is scattered with stride 2 and offset 1 into zeros; the filter is flipped in R and S and
// reordered to G C/G R S K/G; a dense grouped convolution then reads both.

func.func @main(%dy: tensor<32x25x25x1024xf16>, %w: tensor<1024x3x3x32xf16>) -> tensor<32x50x50x1024xf16> {
  %zero = arith.constant 0.000000e+00 : f32
  %c2 = arith.constant 2 : index
  %zeros = arith.constant dense<0.000000e+00> : tensor<32x52x52x32x32xf16>
  %dy_grouped = tensor.expand_shape %dy [[0], [1], [2], [3, 4]] output_shape [32, 25, 25, 32, 32] : tensor<32x25x25x1024xf16> into tensor<32x25x25x32x32xf16>
  %w_grouped = tensor.expand_shape %w [[0, 1], [2], [3], [4]] output_shape [32, 32, 3, 3, 32] : tensor<1024x3x3x32xf16> into tensor<32x32x3x3x32xf16>
  %scattered = tensor.insert_slice %dy_grouped into %zeros[0, 1, 1, 0, 0] [32, 25, 25, 32, 32] [1, 2, 2, 1, 1] : tensor<32x25x25x32x32xf16> into tensor<32x52x52x32x32xf16>
  %dx_empty = tensor.empty() : tensor<32x50x50x32x32xf32>
  %dx_init = linalg.fill ins(%zero : f32) outs(%dx_empty : tensor<32x50x50x32x32xf32>) -> tensor<32x50x50x32x32xf32>
  %flipped_empty = tensor.empty() : tensor<32x32x3x3x32xf16>
  %flipped = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} outs(%flipped_empty : tensor<32x32x3x3x32xf16>) {
  ^bb0(%out: f16):
    %0 = linalg.index 0 : index
    %1 = linalg.index 4 : index
    %2 = linalg.index 2 : index
    %3 = linalg.index 3 : index
    %4 = linalg.index 1 : index
    %5 = arith.subi %c2, %2 : index
    %6 = arith.subi %c2, %3 : index
    %extracted = tensor.extract %w_grouped[%0, %1, %5, %6, %4] : tensor<32x32x3x3x32xf16>
    linalg.yield %extracted : f16
  } -> tensor<32x32x3x3x32xf16>
  %dx_f32 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1 + d5, d2 + d6, d3, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d3, d4, d5, d6, d7)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%scattered, %flipped : tensor<32x52x52x32x32xf16>, tensor<32x32x3x3x32xf16>) outs(%dx_init : tensor<32x50x50x32x32xf32>) {
  ^bb0(%in: f16, %in_0: f16, %out: f32):
    %0 = arith.extf %in : f16 to f32
    %1 = arith.extf %in_0 : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<32x50x50x32x32xf32>
  %dx_f16_empty = tensor.empty() : tensor<32x50x50x32x32xf16>
  %dx_f16 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%dx_f32 : tensor<32x50x50x32x32xf32>) outs(%dx_f16_empty : tensor<32x50x50x32x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %0 = arith.truncf %in : f32 to f16
    linalg.yield %0 : f16
  } -> tensor<32x50x50x32x32xf16>
  %dx = tensor.collapse_shape %dx_f16 [[0], [1], [2], [3, 4]] : tensor<32x50x50x32x32xf16> into tensor<32x50x50x1024xf16>
  return %dx : tensor<32x50x50x1024xf16>
}
