// elements: all
func.func @main(%x: tensor<8x3xELEMENT>, %a: tensor<3x2x4xELEMENT>, %y: tensor<4x7xELEMENT>) -> tensor<4x7xELEMENT> {
  %w = tensor.cast %a : tensor<3x2x4xELEMENT> to tensor<?x2x4xELEMENT>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0 + d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d2, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d3, d0)>], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%x, %w : tensor<8x3xELEMENT>, tensor<?x2x4xELEMENT>) outs(%y : tensor<4x7xELEMENT>) {
  ^bb0(%p: ELEMENT, %q: ELEMENT, %o: ELEMENT):
    %m = arith.MUL %p, %q : ELEMENT
    %s = arith.ADD %o, %m : ELEMENT
    linalg.yield %s : ELEMENT
  } -> tensor<4x7xELEMENT>
  return %r : tensor<4x7xELEMENT>
}
