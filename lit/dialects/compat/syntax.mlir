// RUN: convir-opt %s | filecheck %s
// RUN: convir-opt %s | convir-opt | filecheck %s

#row = affine_map<(d0, d1) -> (d1)>
!matrix = tensor<4x6xf32>

// CHECK-LABEL: func.func private @declared(tensor<4xf32> {convir.note = "kept"}, f32) -> (f32 {convir.note})
func.func private @declared(tensor<4xf32> {convir.note = "kept"}, f32) -> (f32 {convir.note})

// CHECK-LABEL: func.func @two_results
func.func @two_results(%x: tensor<6xf32>, %y: !matrix) -> (!matrix, !matrix) {
  // CHECK: %0, %1 = linalg.generic
  // CHECK: } -> (tensor<4x6xf32>, tensor<4x6xf32>)
  %0:2 = linalg.generic {indexing_maps = [#row, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
         ins(%x : tensor<6xf32>) outs(%y, %y : !matrix, !matrix) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    linalg.yield %a, %b : f32, f32
  } -> (!matrix, !matrix)
  func.return %0#0, %0#1 : !matrix, !matrix
}

// CHECK-LABEL: func.func @casts
func.func @casts(%x: f32, %t: tensor<4xi8>) -> (f16, tensor<4xi32>) {
  // The rounding that is written is the one that is meant when none is.
  // CHECK: arith.truncf %x : f32 to f16
  %0 = arith.truncf %x to_nearest_even : f32 to f16
  // CHECK: arith.extsi %t : tensor<4xi8> to tensor<4xi32>
  %1 = arith.extsi %t : tensor<4xi8> to tensor<4xi32>
  func.return %0, %1 : f16, tensor<4xi32>
}

// CHECK-LABEL: func.func @selects
func.func @selects(%c: tensor<4xi1>, %b: i1, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: arith.select %c, %x, %x : tensor<4xi1>, tensor<4xf32>
  %0 = arith.select %c, %x, %x : tensor<4xi1>, tensor<4xf32>
  // CHECK: arith.select %b, %x, %x : tensor<4xf32>
  %1 = arith.select %b, %x, %x : tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @comparisons
func.func @comparisons(%t: tensor<?x4xi32>, %v: vector<[4]x2xf32>, %x: f32) -> (tensor<?x4xi1>, vector<[4]x2xf32>, i1) {
  // A comparison has an i1 for each pair of elements.
  // CHECK: arith.cmpi slt, %t, %t {note} : tensor<?x4xi32>
  %0 = arith.cmpi slt, %t, %t {note} : tensor<?x4xi32>
  // CHECK: [[C:%[0-9]+]] = arith.cmpf ult, %v, %v : vector<[4]x2xf32>
  %1 = arith.cmpf "ult", %v, %v : vector<[4]x2xf32>
  // CHECK: arith.select [[C]], %v, %v : vector<[4]x2xi1>, vector<[4]x2xf32>
  %2 = arith.select %1, %v, %v : vector<[4]x2xi1>, vector<[4]x2xf32>
  // CHECK: arith.cmpf true, %x, %x fastmath<nnan> {note} : f32
  %3 = arith.cmpf true, %x, %x fastmath<nnan> {note} : f32
  func.return %0, %2, %3 : tensor<?x4xi1>, vector<[4]x2xf32>, i1
}

// Aliases of locations come last, as MLIR prints them.
// CHECK-LABEL: func.func @located
func.func @located(%x: f32 loc("x")) -> f32 {
  %0 = arith.negf %x : f32 loc(#second)
  func.return %0 : f32 loc(fused<"why">["a.py":1:2, #first])
} loc(callsite(#first at "b.py":3:4 to :9))
#first = loc("a.py":5:6)
#second = loc("name"(#first))
