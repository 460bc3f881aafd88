func.func @main(%a0: tensor<3xf64>, %a2: tensor<3x1xf64>, %a3: tensor<4x5xf64>) -> tensor<4x5xf64> {
  %v6 = tensor.empty() : tensor<2x3xf64>
  %v7 = linalg.broadcast ins(%a0 : tensor<3xf64>) outs(%v6 : tensor<2x3xf64>) dimensions = [0]
  %k12 = arith.constant 0.0 : f64
  %v13 = tensor.empty() : tensor<2x1xf64>
  %v14 = linalg.fill ins(%k12 : f64) outs(%v13 : tensor<2x1xf64>) -> tensor<2x1xf64>
  %v15 = linalg.matmul ins(%v7, %a2 : tensor<2x3xf64>, tensor<3x1xf64>) outs(%v14 : tensor<2x1xf64>) -> tensor<2x1xf64>
  %v16 = tensor.insert_slice %v15 into %a3[1, 2] [2, 1] [2, 1] : tensor<2x1xf64> into tensor<4x5xf64>
  return %v16 : tensor<4x5xf64>
}
