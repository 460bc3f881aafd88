// elements: all
func.func @main(%x: tensor<2x2xELEMENT>, %w: tensor<6x4xELEMENT>) -> tensor<4x4xELEMENT> {
  %zero = arith.constant ZERO : ELEMENT
  %zeros = tensor.splat %zero : tensor<4x6xELEMENT>
  %s = tensor.insert_slice %x into %zeros[0, 2] [2, 2] [3, 1] : tensor<2x2xELEMENT> into tensor<4x6xELEMENT>
  %e = tensor.empty() : tensor<4x4xELEMENT>
  %init = linalg.fill ins(%zero : ELEMENT) outs(%e : tensor<4x4xELEMENT>) -> tensor<4x4xELEMENT>
  %r = linalg.matmul ins(%s, %w : tensor<4x6xELEMENT>, tensor<6x4xELEMENT>) outs(%init : tensor<4x4xELEMENT>) -> tensor<4x4xELEMENT>
  return %r : tensor<4x4xELEMENT>
}
