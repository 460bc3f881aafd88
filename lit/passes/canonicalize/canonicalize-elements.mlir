// RUN: convir-opt %s -p canonicalize --split-input-file | filecheck %s

// CHECK-LABEL: func.func @extract_uniform
// CHECK-NEXT: [[ONE:%.+]] = arith.constant 1.000000e+00 : f32
// CHECK: func.return [[ONE]], %x
func.func @extract_uniform(%i: index, %x: f32, %d: tensor<4xf32>) -> (f32, f32) {
  %0 = arith.constant dense<1.0> : tensor<4xf32>
  %1 = tensor.extract %0[%i] : tensor<4xf32>
  %2 = linalg.fill ins(%x : f32) outs(%d : tensor<4xf32>) -> tensor<4xf32>
  %3 = tensor.extract %2[%i] : tensor<4xf32>
  return %1, %3 : f32, f32
}

// CHECK-LABEL: func.func @extract_known
// CHECK-DAG: [[FIVE:%.+]] = arith.constant 5 : i32
// CHECK-DAG: [[TRUE:%.+]] = arith.constant true
// CHECK: func.return [[FIVE]], [[TRUE]], %x, %x
func.func @extract_known(%x: i32, %y: i32, %i: index, %a: tensor<4xi32>) -> (i32, i1, i32, i32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %1 = tensor.extract %0[%c1, %c1] : tensor<2x3xi32>
  %2 = arith.constant dense<[false, true]> : tensor<2xi1>
  %3 = tensor.extract %2[%c1] : tensor<2xi1>
  %4 = tensor.from_elements %x, %y : tensor<2xi32>
  %5 = tensor.extract %4[%c0] : tensor<2xi32>
  %6 = tensor.insert %x into %a[%i] : tensor<4xi32>
  %7 = tensor.extract %6[%i] : tensor<4xi32>
  return %1, %3, %5, %7 : i32, i1, i32, i32
}

// CHECK-LABEL: func.func @constants
// CHECK-DAG: arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-DAG: arith.constant dense<1.000000e+00> : tensor<3xf32>
// CHECK: func.return
func.func @constants() -> (tensor<2xf32>, tensor<3xf32>) {
  %0 = arith.constant 1.0 : f32
  %1 = arith.constant 2.0 : f32
  %2 = tensor.from_elements %0, %1 : tensor<2xf32>
  %3 = tensor.splat %0 : tensor<3xf32>
  return %2, %3 : tensor<2xf32>, tensor<3xf32>
}

// -----

// Not rewritten because an index is out of bounds, or unknown.

// CHECK-LABEL: func.func @extract_unknown
// CHECK-COUNT-2: tensor.extract
func.func @extract_unknown(%i: index) -> (i32, i32) {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %0 = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %1 = tensor.extract %0[%c1, %c3] : tensor<2x3xi32>
  %2 = tensor.extract %0[%c1, %i] : tensor<2x3xi32>
  return %1, %2 : i32, i32
}

// -----

// Not rewritten because the insertion may be at the other index.

// CHECK-LABEL: func.func @extract_elsewhere
// CHECK: tensor.extract
func.func @extract_elsewhere(%x: i32, %i: index, %j: index, %a: tensor<4xi32>) -> i32 {
  %0 = tensor.insert %x into %a[%i] : tensor<4xi32>
  %1 = tensor.extract %0[%j] : tensor<4xi32>
  return %1 : i32
}

// -----

// Not rewritten because the tensor has a dynamic size.

// CHECK-LABEL: func.func @dynamic_splat
// CHECK: tensor.splat
func.func @dynamic_splat(%n: index) -> tensor<?xf32> {
  %0 = arith.constant 1.0 : f32
  %1 = tensor.splat %0[%n] : tensor<?xf32>
  return %1 : tensor<?xf32>
}
