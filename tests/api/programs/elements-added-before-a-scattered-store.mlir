// elements: all
func.func @main(%x: tensor<4x3xELEMENT>, %w: tensor<3x5xELEMENT>, %b: tensor<4x5xELEMENT>) -> tensor<8x5xELEMENT> {
  %zero = arith.constant ZERO : ELEMENT
  %e = tensor.empty() : tensor<4x5xELEMENT>
  %f = linalg.fill ins(%zero : ELEMENT) outs(%e : tensor<4x5xELEMENT>) -> tensor<4x5xELEMENT>
  %r = linalg.matmul ins(%x, %w : tensor<4x3xELEMENT>, tensor<3x5xELEMENT>) outs(%f : tensor<4x5xELEMENT>) -> tensor<4x5xELEMENT>
  %s = arith.ADD %r, %b : tensor<4x5xELEMENT>
  %zeros = tensor.splat %zero : tensor<8x5xELEMENT>
  %y = tensor.insert_slice %s into %zeros[1, 0] [4, 5] [2, 1] : tensor<4x5xELEMENT> into tensor<8x5xELEMENT>
  return %y : tensor<8x5xELEMENT>
}
