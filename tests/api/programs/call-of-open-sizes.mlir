func.func private @g(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %b = arith.addf %a, %a : tensor<?xf32>
  return %b, %a : tensor<?xf32>, tensor<?xf32>
}
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %c = tensor.cast %a0 : tensor<4xf32> to tensor<?xf32>
  %x:2 = func.call @g(%c) : (tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>)
  %y:2 = func.call @g(%x#0) : (tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>)
  %z = arith.addf %y#0, %x#1 : tensor<?xf32>
  %r = tensor.cast %z : tensor<?xf32> to tensor<4xf32>
  return %r : tensor<4xf32>
}
