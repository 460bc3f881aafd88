func.func @main(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<f32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %s = tensor.extract_slice %f[] [] [] : tensor<f32> to tensor<f32>
  %r = linalg.dot ins(%a, %b : tensor<3xf32>, tensor<3xf32>) outs(%s : tensor<f32>) -> tensor<f32>
  %t = tensor.insert_slice %r into %e[] [] [] : tensor<f32> into tensor<f32>
  return %t : tensor<f32>
}
