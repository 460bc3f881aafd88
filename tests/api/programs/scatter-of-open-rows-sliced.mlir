// shapes: 3x4, 3x4, 4
func.func @main(%x: tensor<?x4xf32>, %w: tensor<?x4xf32>, %i: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %e = tensor.empty(%n) : tensor<2x?x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x?x4xf32>) -> tensor<2x?x4xf32>
  %s = tensor.insert_slice %x into %f[1, 0, 0] [1, %n, 4] [1, 1, 1] : tensor<?x4xf32> into tensor<2x?x4xf32>
  %t = tensor.extract_slice %s[1, 0, 0] [1, %n, 4] [1, 1, 1] : tensor<2x?x4xf32> to tensor<1x?x4xf32>
  return %i : tensor<4xf32>
}
