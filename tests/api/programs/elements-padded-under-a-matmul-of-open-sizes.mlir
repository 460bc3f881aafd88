// elements: all
// shapes: 3x4, 4x5
func.func @main(%x: tensor<3x?xELEMENT>, %w: tensor<4x5xELEMENT>) -> tensor<6x5xELEMENT> {
  %zero = arith.constant ZERO : ELEMENT
  %p = tensor.pad %x low[3, 0] high[0, 0] {
  ^bb0(%a: index, %b: index):
    tensor.yield %zero : ELEMENT
  } : tensor<3x?xELEMENT> to tensor<6x?xELEMENT>
  %open = tensor.cast %w : tensor<4x5xELEMENT> to tensor<?x?xELEMENT>
  %e = tensor.empty() : tensor<6x5xELEMENT>
  %f = linalg.fill ins(%zero : ELEMENT) outs(%e : tensor<6x5xELEMENT>) -> tensor<6x5xELEMENT>
  %init = tensor.cast %f : tensor<6x5xELEMENT> to tensor<?x5xELEMENT>
  %r = linalg.matmul ins(%p, %open : tensor<6x?xELEMENT>, tensor<?x?xELEMENT>) outs(%init : tensor<?x5xELEMENT>) -> tensor<?x5xELEMENT>
  %y = tensor.cast %r : tensor<?x5xELEMENT> to tensor<6x5xELEMENT>
  return %y : tensor<6x5xELEMENT>
}
