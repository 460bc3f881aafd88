// elements: all
func.func @main(%x: tensor<3x2xELEMENT>, %w: tensor<3x2x4xELEMENT>, %init: tensor<5x4xELEMENT>) -> tensor<5x4xELEMENT> {
  %zero = arith.constant ZERO : ELEMENT
  %zeros = tensor.splat %zero : tensor<7x2xELEMENT>
  %s = tensor.insert_slice %x into %zeros[1, 0] [3, 2] [2, 1] : tensor<3x2xELEMENT> into tensor<7x2xELEMENT>
  %r = linalg.generic {indexing_maps = [affine_map<(p, n, r, k) -> (p + r, k)>, affine_map<(p, n, r, k) -> (r, k, n)>, affine_map<(p, n, r, k) -> (p, n)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<7x2xELEMENT>, tensor<3x2x4xELEMENT>) outs(%init : tensor<5x4xELEMENT>) {
  ^bb0(%a: ELEMENT, %b: ELEMENT, %o: ELEMENT):
    %m = arith.MUL %a, %b : ELEMENT
    %q = arith.ADD %o, %m : ELEMENT
    linalg.yield %q : ELEMENT
  } -> tensor<5x4xELEMENT>
  return %r : tensor<5x4xELEMENT>
}
