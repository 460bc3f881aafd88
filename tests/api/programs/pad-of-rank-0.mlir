func.func @main(%a: tensor<f32>, %b: tensor<5x1xf32>) -> tensor<5xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %a low[] high[] {
    tensor.yield %zero : f32
  } : tensor<f32> to tensor<f32>
  %x = tensor.expand_shape %p [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
  %y = tensor.collapse_shape %x [[0, 1]] : tensor<1x1xf32> into tensor<1xf32>
  %z = tensor.cast %y : tensor<1xf32> to tensor<?xf32>
  %e = tensor.empty() : tensor<5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5xf32>) -> tensor<5xf32>
  %r = linalg.matvec ins(%b, %z : tensor<5x1xf32>, tensor<?xf32>) outs(%f : tensor<5xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}
