// contradicts: has shape's dimension #4 to be 1, but found 3
// shapes: 1x1x2x3, 3x1x8x4x3x1, 3x2x1x1x5, 3x2x1x1x5
func.func @main(%a0: tensor<1x?x2x3xi8>, %a1: tensor<3x1x8x4x3x1xi8>, %a2: tensor<3x2x1x1x5xi8>, %a3: tensor<3x2x1x1x5xi8>) -> (tensor<1x?x2x3xi8>) {
  %c_1 = arith.constant 1 : index
  %e_4 = tensor.empty(%c_1) : tensor<1x?x2x3xi8>
  %k_6 = arith.constant 0 : i8
  %e_7 = tensor.empty(%c_1) : tensor<1x4x1x?x8x9xi8>
  %z_5 = linalg.fill ins(%k_6 : i8) outs(%e_7 : tensor<1x4x1x?x8x9xi8>) -> tensor<1x4x1x?x8x9xi8>
  %s_8 = tensor.insert_slice %a0 into %z_5[0, 2, 0, 0, 0, 0] [1, 1, 1, %c_1, 2, 3] [3, 3, 1, 1, 4, 3] : tensor<1x?x2x3xi8> into tensor<1x4x1x?x8x9xi8>
  %cs_11 = tensor.cast %a1 : tensor<3x1x8x4x3x1xi8> to tensor<3x1x8x4x?x1xi8>
  %c_14 = linalg.generic {indexing_maps=[affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d0 + d1 * 2, d3 + d2 * 2, d4, d5, d6, d7 + d8)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d9, d1, d6, d8, d5, d3)>, affine_map<(d0, d1, d2, d3, d4, d5, d6, d7, d8, d9) -> (d9, d2, d0, d4, d7)>], iterator_types=["parallel", "reduction", "parallel", "reduction", "parallel", "reduction", "reduction", "parallel", "reduction", "parallel"]} ins(%s_8, %cs_11 : tensor<1x4x1x?x8x9xi8>, tensor<3x1x8x4x?x1xi8>) outs(%a2 : tensor<3x2x1x1x5xi8>) {
  ^bb0(%x: i8, %z: i8, %o: i8):
    %p = arith.muli %z, %x : i8
    %y = arith.addi %o, %p : i8
    linalg.yield %y : i8
  } -> tensor<3x2x1x1x5xi8>
  return %e_4 : tensor<1x?x2x3xi8>
}
