// The gradient of the input of a 1x1 convolution with stride 2, as torch-mlir and IREE lower it.
//
//   MIOpenDriver convfp16 -n 32 -c 1024 -H 50 -W 50 -k 2048 -y 1 -x 1 -u 2 -v 2 -p 0 -q 0 -g 1 -F 2
//     --in_layout NHWC --fil_layout NHWC --out_layout NHWC
//
//   %dy   N P Q K   32x25x25x2048   gradient of the output
//   %w    K R S C   2048x1x1x1024   filter
//   dx    N H W C   32x50x50x1024   gradient of the input, accumulated in f32
//
// %dy is scattered with stride 2 into zeros and the contraction then runs on the scattered tensor,
// so three of four of its multiplications are by zero.

func.func @main(%dy: tensor<32x25x25x2048xf16>, %w: tensor<2048x1x1x1024xf16>) -> tensor<32x50x50x1024xf16> {
  %zero = arith.constant 0.000000e+00 : f32
  %zeros = arith.constant dense<0.000000e+00> : tensor<32x50x50x2048xf16>
  %scattered = tensor.insert_slice %dy into %zeros[0, 0, 0, 0] [32, 25, 25, 2048] [1, 2, 2, 1] : tensor<32x25x25x2048xf16> into tensor<32x50x50x2048xf16>
  %dx_empty = tensor.empty() : tensor<32x50x50x1024xf32>
  %dx_init = linalg.fill ins(%zero : f32) outs(%dx_empty : tensor<32x50x50x1024xf32>) -> tensor<32x50x50x1024xf32>
  %w_2d = tensor.collapse_shape %w [[0, 1, 2], [3]] : tensor<2048x1x1x1024xf16> into tensor<2048x1024xf16>
  %w_t_empty = tensor.empty() : tensor<1024x2048xf16>
  %w_t = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1, d0)>], iterator_types = ["parallel", "parallel"]} ins(%w_2d : tensor<2048x1024xf16>) outs(%w_t_empty : tensor<1024x2048xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<1024x2048xf16>
  %dx_f32 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%scattered, %w_t : tensor<32x50x50x2048xf16>, tensor<1024x2048xf16>) outs(%dx_init : tensor<32x50x50x1024xf32>) {
  ^bb0(%in: f16, %in_0: f16, %out: f32):
    %0 = arith.extf %in : f16 to f32
    %1 = arith.extf %in_0 : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<32x50x50x1024xf32>
  %dx_f16_empty = tensor.empty() : tensor<32x50x50x1024xf16>
  %dx = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%dx_f32 : tensor<32x50x50x1024xf32>) outs(%dx_f16_empty : tensor<32x50x50x1024xf16>) {
  ^bb0(%in: f32, %out: f16):
    %0 = arith.truncf %in : f32 to f16
    linalg.yield %0 : f16
  } -> tensor<32x50x50x1024xf16>
  return %dx : tensor<32x50x50x1024xf16>
}
