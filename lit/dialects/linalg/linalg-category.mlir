// RUN: convir-opt %s | filecheck %s
// RUN: convir-opt %s | convir-opt | filecheck %s

// CHECK-LABEL: func.func @contract
func.func @contract(%a: tensor<2x5x4xf32>, %b: tensor<5x6xf32>, %c: tensor<6x4x2xf32>) -> tensor<6x4x2xf32> {
  // CHECK: linalg.contract indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d2, d1, d0)>] ins(
  %0 = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, k, m)>, affine_map<(b, m, n, k) -> (k, n)>, affine_map<(b, m, n, k) -> (n, m, b)>]
       ins(%a, %b : tensor<2x5x4xf32>, tensor<5x6xf32>) outs(%c : tensor<6x4x2xf32>) -> tensor<6x4x2xf32>
  func.return %0 : tensor<6x4x2xf32>
}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<4x6xf32>, %bias: tensor<6xf32>, %y: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK: linalg.elementwise <add> indexing_maps = [{{.*}}affine_map<(d0, d1) -> (d1)>{{.*}}] ins(
  %0 = linalg.elementwise <add> indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>]
       ins(%x, %bias : tensor<4x6xf32>, tensor<6xf32>) outs(%y : tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: linalg.elementwise <tanh> ins(
  %1 = linalg.elementwise <tanh> ins(%0 : tensor<4x6xf32>) outs(%y : tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %1 : tensor<4x6xf32>
}

// The short form is read, and the accumulator is its first operand; the long form is printed.
// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: tensor<4x6xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: linalg.reduce ins(%x : tensor<4x6xf32>) outs(%y : tensor<4xf32>) dimensions = [1] ([[IN:%.*]]: f32, [[OUT:%.*]]: f32) {
  // CHECK-NEXT: arith.subf [[OUT]], [[IN]] : f32
  %0 = linalg.reduce { arith.subf } ins(%x : tensor<4x6xf32>) outs(%y : tensor<4xf32>) dimensions = [1]
  // CHECK: linalg.reduce ins(%x, %x : tensor<4x6xf32>, tensor<4x6xf32>) outs(%y, %y : tensor<4xf32>, tensor<4xf32>) dimensions = [1]
  %1, %2 = linalg.reduce ins(%x, %x : tensor<4x6xf32>, tensor<4x6xf32>) outs(%y, %y : tensor<4xf32>, tensor<4xf32>) dimensions = [1]
    (%a: f32, %b: f32, %c: f32, %d: f32) {
      %s = arith.addf %a, %c : f32
      %m = arith.maximumf %b, %d : f32
      linalg.yield %s, %m : f32, f32
    }
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @map
func.func @map(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: linalg.map ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>) ([[IN:%.*]]: f32, [[OUT:%.*]]: f32) {
  // CHECK-NEXT: math.exp [[IN]] : f32
  %0 = linalg.map { math.exp } ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>)
  func.return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @moves
func.func @moves(%x: tensor<4x6xf32>, %row: tensor<6xf32>, %t: tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<4x6xf32>) {
  // CHECK: linalg.transpose ins(%x : tensor<4x6xf32>) outs(%t : tensor<6x4xf32>) permutation = [1, 0] {note}
  %0 = linalg.transpose ins(%x : tensor<4x6xf32>) outs(%t : tensor<6x4xf32>) permutation = [1, 0] {note}
  // CHECK: linalg.broadcast ins(%row : tensor<6xf32>) outs(%x : tensor<4x6xf32>) dimensions = [0]
  %1 = linalg.broadcast ins(%row : tensor<6xf32>) outs(%x : tensor<4x6xf32>) dimensions = [0]
  func.return %0, %1 : tensor<6x4xf32>, tensor<4x6xf32>
}
