func.func @main(%a: tensor<2xi1>, %b: tensor<2x2xi32>, %f: tensor<2xi32>) -> tensor<2xi32> {
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%a, %b : tensor<2xi1>, tensor<2x2xi32>) outs(%f : tensor<2xi32>) {
  ^bb0(%z: i1, %x: i32, %o: i32):
    %zz = arith.extsi %z : i1 to i32
    %p = arith.muli %zz, %x : i32
    %y = arith.addi %o, %p : i32
    linalg.yield %y : i32
  } -> tensor<2xi32>
  return %v9 : tensor<2xi32>
}
