func.func @main(%a0: tensor<1xf32>, %w: tensor<1x1xf32>, %z: tensor<40x50xf32>) -> (tensor<40x1xf32>, tensor<1x50xf32>, tensor<40x50xf32>) {
  %k = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x1xf32>
  %b = linalg.broadcast ins(%a0 : tensor<1xf32>) outs(%e : tensor<40x1xf32>) dimensions = [0]
  %f = linalg.fill ins(%k : f32) outs(%e : tensor<40x1xf32>) -> tensor<40x1xf32>
  %r = linalg.matmul ins(%b, %w : tensor<40x1xf32>, tensor<1x1xf32>) outs(%f : tensor<40x1xf32>) -> tensor<40x1xf32>
  %e2 = tensor.empty() : tensor<1x40xf32>
  %e3 = tensor.empty() : tensor<1x50xf32>
  %b2 = linalg.broadcast ins(%a0 : tensor<1xf32>) outs(%e2 : tensor<1x40xf32>) dimensions = [1]
  %f2 = linalg.fill ins(%k : f32) outs(%e3 : tensor<1x50xf32>) -> tensor<1x50xf32>
  %r2 = linalg.matmul ins(%b2, %z : tensor<1x40xf32>, tensor<40x50xf32>) outs(%f2 : tensor<1x50xf32>) -> tensor<1x50xf32>
  %e4 = tensor.empty() : tensor<40x50xf32>
  %f4 = linalg.fill ins(%k : f32) outs(%e4 : tensor<40x50xf32>) -> tensor<40x50xf32>
  %r4 = linalg.matmul ins(%b, %r2 : tensor<40x1xf32>, tensor<1x50xf32>) outs(%f4 : tensor<40x50xf32>) -> tensor<40x50xf32>
  return %r, %r2, %r4 : tensor<40x1xf32>, tensor<1x50xf32>, tensor<40x50xf32>
}
