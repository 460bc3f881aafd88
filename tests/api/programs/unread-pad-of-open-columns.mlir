// shapes: 1x3x2x2, 1x1, 6x1x5, 2x1x6x1, 1x1x5
func.func @main(%a0: tensor<1x3x?x2xi32>, %a1: tensor<1x1xi32>, %a2: tensor<6x1x5xi64>, %a3: tensor<2x1x6x1xi64>, %a4: tensor<1x1x5xi64>) -> (tensor<6x2x?xi64>) {
  %cs_22 = tensor.cast %a2 : tensor<6x1x5xi64> to tensor<6x1x?xi64>
  %k_26 = arith.constant 0 : i64
  %p_27 = tensor.pad %cs_22 low[0, 1, 0] high[0, 0, 0] {
  ^bb0(%p0: index, %p1: index, %p2: index):
    tensor.yield %k_26 : i64
  } : tensor<6x1x?xi64> to tensor<6x2x?xi64>
  %cs_28 = tensor.cast %a4 : tensor<1x1x5xi64> to tensor<1x1x?xi64>
  %c_29 = linalg.generic {indexing_maps=[affine_map<(d0, d1, d2, d3, d4) -> (d1, d4, d0, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d3, d4, d2)>], iterator_types=["reduction", "reduction", "parallel", "parallel", "parallel"]} ins(%a3, %p_27 : tensor<2x1x6x1xi64>, tensor<6x2x?xi64>) outs(%cs_28 : tensor<1x1x?xi64>) {
  ^bb0(%z: i64, %x: i64, %o: i64):
    %p = arith.muli %x, %z : i64
    %y = arith.addi %p, %o : i64
    linalg.yield %y : i64
  } -> tensor<1x1x?xi64>
  return %p_27 : tensor<6x2x?xi64>
}
