// shapes: 3x1, 1x4x4
func.func @main(%a0: tensor<3x?xi32>, %a1: tensor<1x4x4xi32>) -> (tensor<5x?xi32>) {
  %c_1 = arith.constant 1 : index
  %k_4 = arith.constant 0 : i32
  %z_3 = tensor.splat %k_4[%c_1] : tensor<5x?xi32>
  %cs_6 = tensor.cast %a1 : tensor<1x4x4xi32> to tensor<?x4x4xi32>
  %e_9 = tensor.empty() : tensor<4x1xi64>
  %c_10 = linalg.generic {indexing_maps=[affine_map<(d0, d1, d2, d3) -> (d2, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0 * 3 + d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d3, d0)>], iterator_types=["parallel", "reduction", "reduction", "parallel"]} ins(%cs_6, %z_3 : tensor<?x4x4xi32>, tensor<5x?xi32>) outs(%e_9 : tensor<4x1xi64>) {
  ^bb0(%z: i32, %x: i32, %o: i64):
    %x1 = arith.extsi %x : i32 to i64
    %z1 = arith.extsi %z : i32 to i64
    %p = arith.muli %x1, %z1 : i64
    %y = arith.addi %p, %o : i64
    linalg.yield %y : i64
  } -> tensor<4x1xi64>
  return %z_3 : tensor<5x?xi32>
}
