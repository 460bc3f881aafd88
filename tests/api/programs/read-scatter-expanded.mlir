// contradicts: slice along dimension 2 runs out-of-bounds
// shapes: 1x1x2x3, 1x10x2x12x1
func.func @main(%a0: tensor<1x?x?x?xf32>, %a1: tensor<1x10x2x12x1xf32>) -> (tensor<?x2x1xf32>) {
  %c_1 = arith.constant 1 : index
  %c_3 = arith.constant 2 : index
  %c_5 = arith.constant 3 : index
  %k_20 = arith.constant 0.0 : f32
  %e_21 = tensor.empty(%c_1, %c_3, %c_5) : tensor<1x?x?x?xf32>
  %z_19 = linalg.fill ins(%k_20 : f32) outs(%e_21 : tensor<1x?x?x?xf32>) -> tensor<1x?x?x?xf32>
  %s_22 = tensor.insert_slice %a0 into %z_19[0, 0, 0, 0] [1, %c_1, %c_3, %c_5] [1, 3, 3, 3] : tensor<1x?x?x?xf32> into tensor<1x?x?x?xf32>
  %r_23 = tensor.expand_shape %s_22 [[0, 1], [2], [3], [4]] output_shape [1, 1, %c_1, %c_3, %c_5] : tensor<1x?x?x?xf32> into tensor<1x1x?x?x?xf32>
  %cs_24 = tensor.cast %a1 : tensor<1x10x2x12x1xf32> to tensor<1x?x2x?x1xf32>
  %e_27 = tensor.empty(%c_1) : tensor<?x2x1xf32>
  %c_28 = linalg.generic {indexing_maps=[affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d2, d5, d6, d4, d0)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d2 * 2, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d6, d1)>], iterator_types=["reduction", "parallel", "reduction", "parallel", "reduction", "reduction", "parallel"]} ins(%cs_24, %r_23 : tensor<1x?x2x?x1xf32>, tensor<1x1x?x?x?xf32>) outs(%e_27 : tensor<?x2x1xf32>) {
  ^bb0(%z: f32, %x: f32, %o: f32):
    %p = arith.mulf %z, %x : f32
    %y = arith.addf %o, %p : f32
    linalg.yield %y : f32
  } -> tensor<?x2x1xf32>
  return %c_28 : tensor<?x2x1xf32>
}
