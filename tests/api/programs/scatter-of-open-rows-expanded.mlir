// shapes: 3x4, 4x5
func.func @main(%x: tensor<?x4xf32>, %w: tensor<4x5xf32>) -> tensor<1x?x5xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %z = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %m = arith.muli %n, %c2 : index
  %e = tensor.empty(%m) : tensor<?x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %s = tensor.insert_slice %x into %f[0, 0] [%n, 4] [2, 1] : tensor<?x4xf32> into tensor<?x4xf32>
  %t = tensor.expand_shape %s [[0, 1], [2]] output_shape [1, %m, 4] : tensor<?x4xf32> into tensor<1x?x4xf32>
  %e2 = tensor.empty(%m) : tensor<1x?x5xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<1x?x5xf32>) -> tensor<1x?x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (k, j)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%t, %w : tensor<1x?x4xf32>, tensor<4x5xf32>) outs(%f2 : tensor<1x?x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x?x5xf32>
  return %r : tensor<1x?x5xf32>
}
