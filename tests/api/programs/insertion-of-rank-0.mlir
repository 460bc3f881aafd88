func.func @main(%a0: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %x = tensor.insert_slice %a0 into %b[] [] [] : tensor<f32> into tensor<f32>
  return %x : tensor<f32>
}
